//! Who is in the cluster.

use std::time::Duration;

use serde_json::Value;
use tests::{Output, Server, ports, within};

use crate::{Group, MAKERS, hex};

/// Until a member has started, or caught up.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn members_are_listed_in_every_form() {
    for maker in MAKERS {
        let group = Group::start(maker);
        let listed = group.listed();
        let mut names: Vec<_> = listed.iter().map(|member| member["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["m1", "m2", "m3"]);
        let simple = group.ctl(&["member", "list"]);
        let table = group.ctl(&["member", "list", "-w", "table"]);
        let fields = group.ctl(&["member", "list", "-w", "fields"]);
        for (number, member) in group.members.iter().enumerate() {
            let name = format!("m{}", number + 1);
            let own = listed.iter().find(|listed| listed["name"] == name.as_str()).unwrap();
            let (id, peer, client) = (hex(&own["ID"]), member.peer(), member.endpoint());
            assert!(simple.contains(&format!("{id}, started, {name}, {peer}, {client}, false\n")), "{simple}");
            let row = [&format!("{id:>16}"), "started", &name, peer, client, "false"].join(" | ");
            assert!(table.replace("  ", " ").contains(&row.replace("  ", " ")) || table.contains(&id), "{table}");
            assert!(fields.contains(&format!("\"Name\" : {name:?}")), "{fields}");
        }
    }
}

/// A change of the membership; a cluster takes none before its members have been in touch for some seconds.
fn once_healthy(group: &Group, args: &[&str]) -> Output {
    within(PATIENCE, "the cluster is healthy", || {
        let said = group.members[0].etcdctl(args);
        if said.err.contains("etcdserver: unhealthy cluster") { Err(said.err) } else { Ok(said) }
    })
}

/// Adds a member, starts it, and waits until it has a name.
fn grow(group: &mut Group, number: usize, learner: bool) -> String {
    let port = ports::free(1)[0];
    let (name, peer) = (format!("m{number}"), format!("http://127.0.0.1:{port}"));
    let (peer_flag, learner_flag) = (format!("--peer-urls={peer}"), ["--learner"]);
    let usual = ["member", "add", &name, &peer_flag];
    let add = [&usual[..], if learner { &learner_flag } else { &[] }].concat();
    let said = once_healthy(group, &add).ok();
    let line = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("{name}=\""))).unwrap_or_else(|| panic!("no {name}: {said}"));
        line.trim_end_matches('"').to_owned()
    };
    assert!(said.starts_with("Member ") && said.contains(" added to cluster "), "{said}");
    assert_eq!((line("ETCD_NAME"), line("ETCD_INITIAL_CLUSTER_STATE")), (name.clone(), "existing".to_owned()));
    assert_eq!(line("ETCD_INITIAL_ADVERTISE_PEER_URLS"), peer);
    let id = said.split_whitespace().nth(1).unwrap().to_owned();
    let simple = group.ctl(&["member", "list"]);
    assert!(simple.contains(&format!("{id}, unstarted, , {peer}, , {learner}\n")), "{simple}");
    let member = Server::join(group.maker, number, &peer, &line("ETCD_INITIAL_CLUSTER"));
    within(PATIENCE, "the new member has started", || {
        let simple = group.members[0].etcdctl(&["member", "list"]).ok();
        if simple.contains(&format!("{id}, started, {name}")) { Ok(()) } else { Err(format!("{simple}\n{}", member.log())) }
    });
    group.members.push(member);
    id
}

#[test]
fn a_voter_is_added_and_removed() {
    for maker in MAKERS {
        let mut group = Group::start(maker);
        group.ctl(&["put", "before", "1"]);
        let id = grow(&mut group, 4, false);
        let own = |args: &[&str]| group.members[3].etcdctl(args);
        within(PATIENCE, "it has caught up", || {
            let got = own(&["get", "before", "--print-value-only"]);
            if got.out == "1\n" { Ok(()) } else { Err(format!("{got:?}")) }
        });
        own(&["put", "through", "it"]).ok();
        let said = once_healthy(&group, &["member", "remove", &id]).ok();
        assert!(said.starts_with(&format!("Member {id:>16} removed from cluster ")), "{said}");
        group.members.pop();
        assert_eq!(group.listed().len(), 3);
        assert_eq!(group.ctl(&["get", "through", "--print-value-only"]), "it\n");
        let again = group.try_ctl(&["member", "remove", &id]);
        assert!(again.code != 0 && again.err.contains("etcdserver: member not found"), "{again:?}");
    }
}

#[test]
fn a_learner_is_added_promoted_and_moved() {
    for maker in MAKERS {
        let mut group = Group::start(maker);
        group.ctl(&["put", "before", "1"]);
        let id = grow(&mut group, 4, true);
        let refused = group.members[3].etcdctl(&["get", "before"]);
        assert!(refused.code != 0 && refused.err.contains("etcdserver: rpc not supported for learner"), "{refused:?}");
        within(PATIENCE, "it is promoted", || {
            let promoted = group.members[0].etcdctl(&["member", "promote", &id]);
            if promoted.code != 0 {
                assert!(promoted.err.contains("in sync with leader"), "{promoted:?}");
                return Err(promoted.err);
            }
            assert!(promoted.out.starts_with(&format!("Member {id:>16} promoted in cluster ")), "{promoted:?}");
            Ok(())
        });
        let again = group.try_ctl(&["member", "promote", &id]);
        assert!(again.code != 0 && again.err.contains("etcdserver: can only promote a learner member"), "{again:?}");
        let others = "http://127.0.0.1:1,http://127.0.0.1:2";
        let said = group.ctl(&["member", "update", &id, &format!("--peer-urls={others}")]);
        assert!(said.starts_with(&format!("Member {id:>16} updated in cluster ")), "{said}");
        let listed = group.listed();
        let moved = listed.iter().find(|member| hex(&member["ID"]) == id).unwrap();
        assert_eq!(moved["peerURLs"].as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","), others);
        assert!(moved.get("isLearner").is_none_or(|learner| learner == false), "{moved}");
    }
}

#[test]
fn an_address_is_taken_once() {
    for maker in MAKERS {
        let group = Group::start(maker);
        let taken = format!("--peer-urls={}", group.members[1].peer());
        let refused = once_healthy(&group, &["member", "add", "m4", &taken]);
        assert!(refused.code != 0 && refused.err.contains("etcdserver: Peer URLs already exists"), "{refused:?}");
        let refused = group.try_ctl(&["member", "add", "m4", "--peer-urls=nonsense"]);
        assert_ne!(refused.code, 0, "{refused:?}");
        assert_eq!(group.listed().len(), 3);
    }
}

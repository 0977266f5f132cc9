//! What an operator does to a cluster that serves.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::{Server, run, within};

use crate::{Group, MAKERS, hex};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn all_members_are_healthy_and_agree() {
    for maker in MAKERS {
        let group = Group::start(maker);
        for value in ["1", "2", "3"] {
            group.ctl(&["put", "a", value]);
        }
        let one = &group.members[1];
        // Any member knows the others.
        let health = one.etcdctl(&["endpoint", "health", "--cluster"]);
        assert_eq!((health.out.clone() + &health.err).matches("is healthy: successfully committed proposal").count(), 3, "{health:?}");
        let status: Value = serde_json::from_str(&one.etcdctl(&["endpoint", "status", "--cluster", "-w", "json"]).ok()).unwrap();
        let status = status.as_array().unwrap();
        let leaders: Vec<_> = status.iter().map(|one| hex(&one["Status"]["leader"])).collect();
        assert_eq!((leaders.len(), leaders.iter().all(|leader| *leader == leaders[0])), (3, true), "{status:?}");
        let table = one.etcdctl(&["endpoint", "status", "--cluster", "-w", "table"]).ok();
        assert_eq!(table.lines().filter(|line| line.contains("http://")).count(), 3, "{table}");
        within(PATIENCE, "all members have the same hash", || {
            let hashes = one.etcdctl(&["endpoint", "hashkv", "--cluster"]).ok();
            let mut hashes: Vec<_> = hashes.lines().map(|line| line.rsplit(", ").next().unwrap_or_default().to_owned()).collect();
            hashes.sort_unstable();
            hashes.dedup();
            if hashes.len() == 1 { Ok(()) } else { Err(format!("{hashes:?}")) }
        });
    }
}

#[test]
fn the_leadership_is_moved_by_its_leader_only() {
    for maker in MAKERS {
        let group = Group::start(maker);
        let leader = group.leader();
        let (heir, other) = ((leader + 1) % 3, (leader + 2) % 3);
        let id = |of: usize| {
            let name = format!("m{}", of + 1);
            hex(&group.listed().iter().find(|member| member["name"] == name.as_str()).unwrap()["ID"])
        };
        let refused = group.members[other].etcdctl(&["move-leader", &id(heir)]);
        assert!(refused.code != 0 && refused.err.contains("no leader endpoint given at"), "{refused:?}");
        let said = group.members[leader].etcdctl(&["move-leader", &id(heir)]).ok();
        assert_eq!(said, format!("Leadership transferred from {} to {}\n", id(leader), id(heir)));
        within(PATIENCE, "the heir leads", || if group.leader() == heir { Ok(()) } else { Err(group.leader().to_string()) });
        let wrong = group.members[heir].etcdctl(&["move-leader", "1234"]);
        assert!(wrong.code != 0 && wrong.err.contains("bad leader transferee"), "{wrong:?}");
    }
}

#[test]
fn history_is_compacted_and_members_are_defragmented() {
    for maker in MAKERS {
        let group = Group::start(maker);
        let large = "x".repeat(100_000);
        for _ in 0..50 {
            group.ctl(&["put", "a", &large]);
        }
        assert_eq!(group.ctl(&["compaction", "--physical", "50"]), "compacted revision 50\n");
        let refused = group.try_ctl(&["compaction", "49"]);
        assert!(refused.code != 0 && refused.err.contains("mvcc: required revision has been compacted"), "{refused:?}");
        let said = group.members[0].etcdctl(&["defrag", "--cluster"]);
        let said = said.out + &said.err;
        for member in &group.members {
            assert!(said.contains(&format!("Finished defragmenting etcd member[{}]", member.endpoint())), "{said}");
        }
        assert_eq!(group.ctl(&["get", "a", "--print-value-only"]).trim(), large);
    }
}

#[test]
fn a_member_out_of_space_is_told_of_cleared_and_disarmed() {
    for maker in MAKERS {
        let server = Server::start(maker, &["--quota-backend-bytes=4000000"]);
        let large = "x".repeat(100_000);
        let refused = within(PATIENCE, "the quota is felt", || {
            let put = server.etcdctl(&["put", "a", &large]);
            if put.code == 0 { Err("it still takes more".to_owned()) } else { Ok(put) }
        });
        assert!(refused.err.contains("etcdserver: mvcc: database space exceeded"), "{refused:?}");
        let listed = server.etcdctl(&["alarm", "list"]).ok();
        assert!(listed.starts_with("memberID:") && listed.trim_end().ends_with("alarm:NOSPACE"), "{listed}");
        let unhealthy = server.etcdctl(&["endpoint", "health"]);
        assert!(unhealthy.code != 0 && (unhealthy.out.clone() + &unhealthy.err).contains("NOSPACE"), "{unhealthy:?}");
        server.etcdctl(&["del", "a"]).ok();
        let got: Value = serde_json::from_str(&server.etcdctl(&["get", "a", "-w", "json"]).ok()).unwrap();
        server.etcdctl(&["compaction", "--physical", &got["header"]["revision"].to_string()]).ok();
        server.etcdctl(&["defrag"]).ok();
        assert_eq!(server.etcdctl(&["alarm", "disarm"]).ok().trim(), listed.trim());
        assert_eq!(server.etcdctl(&["alarm", "list"]).ok(), "");
        assert_eq!(server.etcdctl(&["put", "a", "1"]).ok(), "OK\n");
    }
}

#[test]
fn a_snapshot_is_saved_from_one_member_and_told_of() {
    for maker in MAKERS {
        let group = Group::start(maker);
        group.ctl(&["put", "a", "1"]);
        let file = group.members[2].snapshot();
        let said = run(Command::new("etcdctl").env("ETCDCTL_API", "3").args(["snapshot", "status", "-w", "json"]).arg(&file)).ok();
        let status: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(status["revision"], 2, "{status}");
        let several = group.try_ctl(&["snapshot", "save", file.to_str().unwrap()]);
        assert!(several.code != 0 && several.err.contains("must be requested to one selected node"), "{several:?}");
    }
}

//! Locks, elections, and a load.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use tests::Background;

use crate::keys::reads;
use crate::{Group, MAKERS};

fn interrupt(process: &Background) {
    kill(Pid::from_raw(process.pid()), Signal::SIGINT).unwrap();
}

#[test]
fn a_lock_is_handed_on() {
    for maker in MAKERS {
        let group = Group::start(maker);
        let (first, second) = (group.members[0].directory().join("first"), group.members[0].directory().join("second"));
        let holder = Background::run(&mut group.command(&["lock", "door"]), &first);
        let key = reads(&first, |text| text.ends_with('\n'));
        assert!(key.starts_with("door/"), "{key}");
        let waiter = Background::run(&mut group.command(&["lock", "door"]), &second);
        tests::eventually("the second stands in line", || {
            group.ctl(&["get", "door/", "--prefix", "--keys-only"]).matches("door/").count() == 2
        });
        assert_eq!(std::fs::read_to_string(&second).unwrap(), "", "two hold the lock");
        interrupt(&holder);
        let next = reads(&second, |text| text.ends_with('\n'));
        assert!(next.starts_with("door/") && next != key, "{next}");
        interrupt(&waiter);
        tests::eventually("the line is empty", || group.ctl(&["get", "door/", "--prefix"]).is_empty());
        // A lock for as long as a command runs, which is told of it.
        let said = group.ctl(&["lock", "door", "sh", "--", "-c", "echo $ETCD_LOCK_KEY"]);
        assert!(said.starts_with("door/"), "{said}");
    }
}

#[test]
fn a_leader_is_elected_and_observed() {
    for maker in MAKERS {
        let group = Group::start(maker);
        let place = group.members[0].directory();
        let [first, second, listener] = ["first", "second", "listener"].map(|name| place.join(name));
        let leader = Background::run(&mut group.command(&["elect", "seat", "one"]), &first);
        let said = reads(&first, |text| text.lines().count() == 2);
        assert!(said.starts_with("seat/") && said.ends_with("\none\n"), "{said}");
        let _observer = Background::run(&mut group.command(&["elect", "--listen", "seat"]), &listener);
        reads(&listener, |text| text.ends_with("\none\n"));
        let _candidate = Background::run(&mut group.command(&["elect", "seat", "two"]), &second);
        tests::eventually("two candidates", || group.ctl(&["get", "seat/", "--prefix", "--keys-only"]).matches("seat/").count() == 2);
        interrupt(&leader);
        reads(&second, |text| text.ends_with("\ntwo\n"));
        reads(&listener, |text| text.contains("\none\n") && text.ends_with("\ntwo\n"));
    }
}

#[test]
fn a_small_load_is_borne() {
    let group = Group::start(tests::Maker::Ours);
    let began = std::time::Instant::now();
    // Whether it passes depends on the machine; that it comes to a verdict does not.
    let said = group.try_ctl(&["check", "perf", "--load=s"]);
    let text = said.out + &said.err;
    assert!(began.elapsed() >= Duration::from_secs(55), "{text}");
    assert!(text.contains("Throughput") && text.contains("Slowest request"), "{text}");
    assert_eq!(group.ctl(&["get", "/etcdctl-check-perf/", "--prefix", "--keys-only"]), "", "it leaves nothing behind");
}

//! `quarterdeck` itself: side by side, dying parts, dying parents, and refusals.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::{Cluster, alive, binary, eventually, run, within};

#[test]
fn clusters_run_side_by_side() {
    let clusters = [Cluster::up(&["--runtime", "hollow"]), Cluster::up(&["--runtime", "hollow"])];
    assert_ne!(clusters[0].listens("apiserver"), clusters[1].listens("apiserver"));
    for (cluster, name) in clusters.iter().zip(["one", "two"]) {
        cluster.wait_for_nodes();
        cluster.kubectl(&["create", "configmap", name]).ok();
    }
    assert!(clusters[0].get(&["configmap", "two"]).is_none());
}

#[test]
fn interrupting_stops_every_part() {
    let mut cluster = Cluster::up(&["--runtime", "hollow"]);
    let parts = ["store-1", "apiserver", "controller-manager", "scheduler", "kubelet"].map(|part| cluster.pid(part));
    assert!(cluster.stop().success());
    assert!(parts.into_iter().all(|pid| !alive(pid)));
}

#[test]
fn nothing_is_left_when_quarterdeck_itself_is_killed() {
    let cluster = Cluster::up(&["--runtime", "hollow"]);
    let parts = ["store-1", "apiserver", "controller-manager", "scheduler", "kubelet"].map(|part| cluster.pid(part));
    kill(Pid::from_raw(cluster.up_pid()), Signal::SIGKILL).unwrap();
    within(Duration::from_secs(30), "the parts end", || {
        let left: Vec<_> = parts.iter().filter(|pid| alive(**pid)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

/// A request that waits for the store keeps the server up for a while; its own loops must rest meanwhile, and let it end.
#[test]
fn an_api_server_whose_store_died_first_ends_when_told_to_and_idles_until_then() {
    let cluster = Cluster::up(&["--components", "store,apiserver"]);
    let server = cluster.pid("apiserver");
    cluster.signal("store-1", Signal::SIGKILL);
    eventually("the API server misses its store", || cluster.kubectl(&["get", "--raw", "/readyz?verbose"]).err.contains("[-]etcd failed"));
    std::thread::scope(|scope| {
        scope.spawn(|| cluster.kubectl(&["create", "configmap", "waits", "--request-timeout=20s"]));
        let waits = "apiserver_current_inflight_requests{request_kind=\"mutating\"} 1";
        eventually("the request waits", || cluster.kubectl(&["get", "--raw", "/metrics"]).out.contains(waits));
        let before = cpu(server);
        cluster.signal("apiserver", Signal::SIGTERM);
        let mut used = Duration::ZERO;
        within(Duration::from_secs(25), "it ends", || {
            used = cpu(server).saturating_sub(before).max(used);
            if alive(server) { Err(cluster.log("apiserver")) } else { Ok(()) }
        });
        assert!(used < Duration::from_secs(3), "{used:?} of work for nobody");
    });
}

/// The processor time a process has used, in the kernel's hundredths of a second.
fn cpu(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    Duration::from_millis(fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

#[test]
fn a_dead_part_is_reported_and_started_again_if_asked_for() {
    let cluster = Cluster::up(&["--runtime", "hollow", "--restart"]);
    let before = cluster.pid("scheduler");
    cluster.signal("scheduler", Signal::SIGKILL);
    eventually("another scheduler runs", || {
        let now = cluster.pid("scheduler");
        now != before && now != 0 && alive(now)
    });
    assert!(cluster.said().contains("scheduler died (signal: 9 (SIGKILL))"), "{}", cluster.said());
}

#[test]
fn down_stops_what_up_started_and_status_tells() {
    let cluster = Cluster::up(&["--runtime", "hollow"]);
    cluster.wait_for_nodes();
    let ask = |verb: &str| run(Command::new(binary("quarterdeck")).arg(verb).arg("--data-dir").arg(cluster.directory()));
    let status = ask("status").ok();
    assert!(status.contains("apiserver") && status.contains("ready, 1 of 1 nodes Ready"), "{status}");
    assert_eq!(ask("down").ok(), "stopped\n");
    assert_eq!(ask("status").code, 1);
}

#[test]
fn a_second_up_on_the_same_directory_is_refused() {
    let cluster = Cluster::up(&["--components", "store"]);
    let second = run(Command::new(binary("quarterdeck")).arg("up").arg("--data-dir").arg(cluster.directory()));
    assert!(second.code == 1 && second.err.contains("a cluster is already running on"), "{second:?}");
}

#[test]
fn bad_flags_are_named() {
    for (program, args, code, words) in [
        ("quarterdeck", vec!["up", "--store-members", "2"], 2, "must be 1, 3 or 5"),
        ("quarterdeck", vec!["up", "--nods", "1"], 2, "--nods"),
        ("store", vec!["--no-such-flag"], 2, "no-such-flag"),
        ("apiserver", vec!["--no-such-flag"], 1, "unknown flag: --no-such-flag"),
        ("controller-manager", vec!["--no-such-flag"], 2, "--no-such-flag"),
        ("scheduler", vec!["--no-such-flag"], 2, "--no-such-flag"),
        ("kubelet", vec!["--no-such-flag"], 2, "--no-such-flag"),
    ] {
        let output = run(Command::new(binary(program)).args(&args));
        assert!(output.code == code && output.err.contains(words), "{program} {args:?}: {output:?}");
    }
}

#[test]
fn an_occupied_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let url = format!("http://{address}");
    let peers = "http://127.0.0.1:0";
    let output = run(Command::new(binary("store")).arg("--data-dir").arg(directory.path()).args([
        "--listen-client-urls",
        &url,
        "--advertise-client-urls",
        &url,
        "--listen-peer-urls",
        peers,
    ]));
    assert!(output.code != 0 && output.err.contains(&address.to_string()) && output.err.to_lowercase().contains("in use"), "{output:?}");
}

#[test]
fn a_corrupt_data_directory_is_named() {
    let mut cluster = Cluster::up(&["--components", "store"]);
    cluster.stop();
    let data = cluster.directory().join("store-1");
    let mut damaged = 0;
    damage(&data, &mut damaged);
    assert!(damaged > 0, "nothing to damage in {}", data.display());
    let output =
        run(Command::new(binary("quarterdeck")).args(["up", "--components", "store,apiserver", "--data-dir"]).arg(cluster.directory()));
    assert!(output.code == 1 && output.err.contains("store-1"), "{output:?}");
}

/// Overwrites every database's CURRENT and MANIFEST files.
fn damage(directory: &std::path::Path, damaged: &mut usize) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            damage(&path, damaged);
        } else if name == "CURRENT" || name.starts_with("MANIFEST") {
            std::fs::write(&path, "not a database").unwrap();
            *damaged += 1;
        }
    }
}

//! Every part is killed, and paused for a minute, in the middle of a rollout.

use std::time::{Duration, Instant};

use tests::{Compose, within};

use crate::rollout::Rollout;

/// How long a paused part is paused.
const PAUSE: Duration = Duration::from_secs(60);

/// Until whoever watches over a part has started it again.
const RESTART: Duration = Duration::from_secs(15);

pub(crate) fn a_rollout_goes_on_after_any_part_is_killed() {
    let cluster = Compose::up();
    let mut rollout = Rollout::new(&cluster);
    for part in ["apiserver", "controller-manager", "scheduler", "node-1/kubelet", "node-1/containerd"] {
        rollout.begin();
        let before = cluster.pid(part);
        cluster.kill9(part);
        within(RESTART, "the killed part runs again", || match cluster.pid(part) {
            now if now.is_some() && now != before => Ok(()),
            now => Err(format!("{part} was {before:?}, is {now:?}")),
        });
        rollout.converges();
    }
}

pub(crate) fn a_rollout_goes_on_after_apiserver_or_scheduler_pause() {
    pause_each(&["apiserver", "scheduler"]);
}

pub(crate) fn a_rollout_goes_on_after_controller_manager_or_containerd_pause() {
    pause_each(&["controller-manager", "node-1/containerd"]);
}

pub(crate) fn a_rollout_goes_on_after_a_kubelet_pauses() {
    pause_each(&["node-1/kubelet"]);
}

fn pause_each(parts: &[&str]) {
    let cluster = Compose::up();
    let mut rollout = Rollout::new(&cluster);
    for part in parts {
        rollout.begin();
        cluster.pause(part);
        let paused = Instant::now();
        // A minute of silence is what is tested; what can be seen meanwhile has to be right as well.
        while paused.elapsed() < PAUSE {
            let _unanswered = rollout.look();
            std::thread::sleep(Duration::from_secs(1));
        }
        cluster.resume(part);
        rollout.converges();
    }
}

//! Deployments of plain processes, which can be counted.

use std::process::Command;
use std::time::Duration;

use tests::{Cluster, run, within};

/// Until processes have started or ended.
const PATIENCE: Duration = Duration::from_secs(120);

/// The seconds that each Deployment's processes sleep: by those they are told from all others on the machine.
pub(crate) struct Workload {
    pub(crate) web: u32,
    pub(crate) removed: u32,
    pub(crate) late: u32,
}

impl Workload {
    pub(crate) fn new() -> Self {
        let own = 10_000_000 + 10 * std::process::id();
        Self { web: own, removed: own + 1, late: own + 2 }
    }

    /// Waits until so many processes run.
    pub(crate) fn counts(&self, expected: &[(u32, usize)]) {
        for (seconds, count) in expected {
            within(PATIENCE, &format!("{count} processes sleep {seconds} s"), || {
                let found = sleepers(*seconds);
                if found.len() == *count { Ok(()) } else { Err(format!("{found:?}")) }
            });
        }
    }

    /// What runs is what the snapshot says: the same pods, none of those that came later, and again the one that had been
    /// removed since.
    pub(crate) fn is_the_snapshots(&self, cluster: &Cluster, web: &[String]) {
        self.counts(&[(self.web, 3), (self.late, 0), (self.removed, 1)]);
        for name in ["web", "removed"] {
            cluster.kubectl(&["rollout", "status", &format!("deployment/{name}"), "--timeout=90s"]).ok();
        }
        let now = pods(cluster, "web");
        // Five ran. Who sees the old number of replicas before the old pods takes two away, of whom it may know only by name.
        let kept = now.iter().filter(|name| web.contains(name)).count();
        assert!(now.len() == 3 && kept >= 1, "{now:?} instead of {web:?}");
        let restarts = ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"];
        assert_eq!(cluster.kubectl(&restarts).ok(), "0 0 0", "the pods were restarted");
        assert!(cluster.get(&["deployment", "late"]).is_none());
        assert!(pods(cluster, "late").is_empty());
    }
}

/// A Deployment whose processes sleep so many seconds.
pub(crate) fn deployment(name: &str, replicas: u32, seconds: u32) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {{name: main, image: none, command: [sleep, "{seconds}"]}}
"#
    )
}

/// The names of a Deployment's pods.
pub(crate) fn pods(cluster: &Cluster, app: &str) -> Vec<String> {
    let names = cluster.kubectl(&["get", "pods", "-l", &format!("app={app}"), "-o", "jsonpath={.items[*].metadata.name}"]).ok();
    names.split_whitespace().map(str::to_owned).collect()
}

fn sleepers(seconds: u32) -> Vec<String> {
    let found = run(Command::new("pgrep").args(["--full", &format!("(^|/)sleep {seconds}$")]));
    found.out.lines().map(str::to_owned).collect()
}

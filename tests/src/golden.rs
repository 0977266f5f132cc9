//! Recorded conversations with kube-apiserver 1.36.2, where they lie beside the checkout.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::admin::Admin;
use crate::command::run;

/// Groups, and how many of their cases must match: what was reached is not lost again. One less than
/// was reached, since a single case may miss its deadline on a loaded machine.
///
/// What differs yet, beside rules that nobody has written down here: the name of the admin, which was another where the recordings were
/// made (table/certificatesigningrequest); finalizers that protect claims and volumes in use, which are not set as long as no controller
/// takes them away (table/persistentvolumeclaim, table/volumeattributesclass and others); rules in CEL (crd/cel-*).
const GROUPS: [(&str, usize); 14] = [
    ("discovery", 14),
    ("concurrency", 13),
    ("patch", 27),
    ("apply", 35),
    ("list-watch", 32),
    ("table", 28),
    ("deletion", 15),
    ("fieldvalidation", 14),
    ("content", 9),
    ("validation", 54),
    ("defaulting", 51),
    ("crd", 22),
    ("services", 9),
    ("subresources", 14),
];

fn shared() -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?.join("shared");
    shared.join("tools/golden").is_file().then_some(shared)
}

/// Replays them against a cluster; says so and returns where there are none.
pub fn answers_as_recorded(cluster: &Admin) {
    let Some(shared) = shared() else {
        eprintln!("skipped: no recordings beside the checkout");
        return;
    };
    for (group, least) in GROUPS {
        let output = run(Command::new("python3")
            .arg(shared.join("tools/golden"))
            .arg("check")
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig())
            .arg(shared.join("golden").join(group)));
        let summary = output.out.lines().last().unwrap_or_default().to_owned();
        eprintln!("{group}: {summary}");
        let passed: usize = summary.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        assert!(passed >= least && passed > 0, "{group}: {summary}, at least {least} passed before\n{}{}", output.out, output.err);
    }
}

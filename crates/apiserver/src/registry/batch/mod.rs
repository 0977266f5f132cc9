//! The resources of group `batch`.

mod cron;
mod cronjob;
mod job;
mod spec;

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        namespaced("batch", "v1", "CronJob", "cronjobs").short(&["cj"]).category("all").status().strategy(cronjob::CronJob),
        namespaced("batch", "v1", "Job", "jobs").category("all").status().strategy(job::Job),
    ]
}

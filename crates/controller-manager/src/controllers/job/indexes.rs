//! Completion indexes of an Indexed job: which are done, and which comes next. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
};

pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Whether each pod of the job has an index of its own.
pub(super) fn is_indexed(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.completion_mode.as_deref()) == Some("Indexed")
}

/// The index of a pod.
pub(super) fn of(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()
}

/// Reads `1,3-5,7`.
pub(super) fn parse(text: &str) -> BTreeSet<i32> {
    let ranges = text.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    });
    ranges.flatten().collect()
}

/// Writes `1,3-5,7`.
pub(super) fn format(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let parts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    parts.join(",")
}

/// The lowest `count` indexes of `completions` that are neither done nor running.
pub(super) fn next(completions: i32, taken: &BTreeSet<i32>, count: usize) -> Vec<i32> {
    (0..completions).filter(|index| !taken.contains(index)).take(count).collect()
}

/// Makes `pod` the one of that index.
pub(super) fn assign(job: &Job, pod: &mut Pod, index: i32) {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    pod.metadata.generate_name = Some(format!("{name}-{index}-"));
    pod.metadata.annotations.get_or_insert_default().insert(INDEX.into(), index.to_string());
    pod.metadata.labels.get_or_insert_default().insert(INDEX.into(), index.to_string());
    let Some(spec) = &mut pod.spec else { return };
    spec.hostname = Some(format!("{name}-{index}"));
    let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    for container in containers {
        let variables = container.env.get_or_insert_default();
        if variables.iter().any(|variable| variable.name == VARIABLE) {
            continue;
        }
        let field = ObjectFieldSelector { field_path: format!("metadata.labels['{INDEX}']"), ..ObjectFieldSelector::default() };
        variables.push(EnvVar {
            name: VARIABLE.into(),
            value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
            ..EnvVar::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{format, next, parse};

    #[test]
    fn reads_and_writes_ranges_as_upstream_does() {
        for text in ["", "0", "0,1", "1,3-5,7", "0-2"] {
            assert_eq!(format(&parse(text)), text);
        }
    }

    #[test]
    fn takes_the_lowest_free_indexes() {
        assert_eq!(next(6, &parse("0,2-3"), 2), [1, 4]);
        assert_eq!(next(3, &parse("0-2"), 2), [] as [i32; 0]);
    }
}

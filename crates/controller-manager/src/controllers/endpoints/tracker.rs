//! What was written and may not be in the cache yet: planning on the old state would make slices twice. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use client::Key;
use k8s_openapi::api::discovery::v1::EndpointSlice;

/// Versions of slices written, by service and UID.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    written: HashMap<Key, BTreeMap<String, u64>>,
}

impl Tracker {
    /// Notes that `slice` of `service` was written as it is.
    pub(super) fn wrote(&mut self, service: &Key, slice: &EndpointSlice) {
        if let (Some(uid), Some(version)) = (slice.metadata.uid.clone(), version(slice)) {
            self.written.entry(service.clone()).or_default().insert(uid, version);
        }
    }

    /// Notes that a slice is gone and will not be seen again.
    pub(super) fn gone(&mut self, service: &Key, uid: &str) {
        if let Some(written) = self.written.get_mut(service) {
            written.remove(uid);
            if written.is_empty() {
                self.written.remove(service);
            }
        }
    }

    /// Whether `cached` slices lag behind what was written for `service`.
    pub(super) fn is_stale(&self, service: &Key, cached: &[Arc<EndpointSlice>]) -> bool {
        self.written.get(service).into_iter().flatten().any(|(uid, written)| {
            let slice = cached.iter().find(|slice| slice.metadata.uid.as_ref() == Some(uid));
            slice.and_then(|slice| version(slice)).is_none_or(|cached| cached < *written)
        })
    }
}

fn version(slice: &EndpointSlice) -> Option<u64> {
    slice.metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use client::Key;
    use k8s_openapi::api::discovery::v1::EndpointSlice;

    use super::Tracker;

    fn slice(uid: &str, version: &str) -> EndpointSlice {
        let mut slice = EndpointSlice::default();
        slice.metadata.uid = Some(uid.into());
        slice.metadata.resource_version = Some(version.into());
        slice
    }

    #[test]
    fn waits_until_the_cache_shows_what_was_written() {
        let (mut tracker, service) = (Tracker::default(), Key::new("default", "web"));
        tracker.wrote(&service, &slice("a", "9"));
        assert!(tracker.is_stale(&service, &[]));
        assert!(tracker.is_stale(&service, &[Arc::new(slice("a", "8"))]));
        assert!(!tracker.is_stale(&service, &[Arc::new(slice("a", "10"))]));
        tracker.gone(&service, "a");
        assert!(!tracker.is_stale(&service, &[]));
    }
}

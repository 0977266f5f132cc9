//! The cluster's services, for the environment of containers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client, api::ListParams};
use tokio::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::pod::services;

/// Containers that start within this time share one list.
const TTL: Duration = Duration::from_secs(2);

/// Reads services when a container starts: its environment is fixed from then on, so nothing is gained from watching.
pub(crate) struct Services {
    client: Client,
    last: Mutex<Option<(Instant, Vec<Service>)>>,
}

impl Services {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, last: Mutex::new(None) }
    }

    /// Variables for a container in `namespace`; `all` adds the namespace's own services.
    pub(crate) async fn variables(&self, namespace: &str, all: bool) -> BTreeMap<String, String> {
        let mut last = self.last.lock().await;
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= TTL) {
            let api: Api<Service> = Api::all(self.client.clone());
            match api.list(&ListParams::default().match_any()).await {
                Ok(list) => *last = Some((Instant::now(), list.items)),
                // The ones known before are better than none.
                Err(error) => tracing::warn!(error = crate::text::api_error(&error), "list services for container environments"),
            }
        }
        let services = last.as_ref().map(|(_, services)| services.as_slice()).unwrap_or_default();
        services::variables(services.iter(), namespace, all)
    }
}

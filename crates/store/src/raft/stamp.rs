//! What each call between members says of itself.

use tonic::{
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
};

use super::membership::Identity;

/// Metadata that names the sender's cluster.
pub(crate) const CLUSTER: &str = "cluster-id";
/// Metadata that names the member that is meant.
pub(crate) const TO: &str = "to-member";
/// Metadata that names the member that sends.
pub(crate) const FROM: &str = "from-member";

/// Writes on each call which cluster and member it comes from and which member it means.
#[derive(Clone)]
pub(crate) struct Stamp {
    cluster: MetadataValue<Ascii>,
    to: MetadataValue<Ascii>,
    from: MetadataValue<Ascii>,
}

impl Stamp {
    pub(super) fn new(sender: &Identity, to: u64) -> Self {
        Self { cluster: sender.cluster_id.into(), to: to.into(), from: sender.member_id.into() }
    }
}

impl Interceptor for Stamp {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> {
        request.metadata_mut().insert(CLUSTER, self.cluster.clone());
        request.metadata_mut().insert(TO, self.to.clone());
        request.metadata_mut().insert(FROM, self.from.clone());
        Ok(request)
    }
}

/// Who sends a call, as it says itself; 0 when it does not.
pub(crate) fn sender(headers: &http::HeaderMap) -> u64 {
    headers.get(FROM).and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok()).unwrap_or_default()
}

/// Refuses calls of another cluster, or meant for another member (a peer whose address was given to someone else).
#[derive(Clone)]
pub(crate) struct Check(pub(crate) Identity);

impl Interceptor for Check {
    fn call(&mut self, request: tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> {
        let number = |name| request.metadata().get(name).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
        let (cluster, to) = (number(CLUSTER), number(TO));
        if cluster != Some(self.0.cluster_id) || to != Some(self.0.member_id) {
            tracing::warn!(?cluster, ?to, "refused a peer's call: it means another cluster or member");
            return Err(tonic::Status::failed_precondition("etcdserver: cluster ID mismatch"));
        }
        Ok(request)
    }
}

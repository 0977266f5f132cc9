//! gRPC probes: `grpc.health.v1.Health/Check`.

use std::time::Duration;

use k8s_openapi::api::core::v1::GRPCAction;
use tonic::{codegen::http::uri::PathAndQuery, transport::Endpoint};

use super::Outcome;

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(enumeration = "ServingStatus", tag = "1")]
    status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum ServingStatus {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

impl ServingStatus {
    fn text(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Serving => "SERVING",
            Self::NotServing => "NOT_SERVING",
            Self::ServiceUnknown => "SERVICE_UNKNOWN",
        }
    }
}

/// One try of a gRPC probe.
pub(crate) async fn probe(ip: Option<&str>, action: &GRPCAction, limit: Duration) -> Outcome {
    let Some(ip) = ip else { return Outcome::Error("the pod has no address yet".into()) };
    let authority = if ip.contains(':') { format!("[{ip}]:{}", action.port) } else { format!("{ip}:{}", action.port) };
    let service = action.service.clone().unwrap_or_default();
    match tokio::time::timeout(limit, check(&authority, service)).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::Failure(format!("timeout: health rpc did not complete within {}s", limit.as_secs())),
    }
}

async fn check(authority: &str, service: String) -> Outcome {
    let endpoint = match Endpoint::from_shared(format!("http://{authority}")) {
        Ok(endpoint) => endpoint,
        Err(error) => return Outcome::Error(error.to_string()),
    };
    let Ok(channel) = endpoint.connect().await else {
        return Outcome::Failure(format!("error: failed to connect service {authority:?}"));
    };
    let mut client = tonic::client::Grpc::new(channel);
    if let Err(error) = client.ready().await {
        return Outcome::Failure(error.to_string());
    }
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    match client.unary(tonic::Request::new(HealthCheckRequest { service }), path, codec).await {
        Ok(answer) => judge(answer.into_inner().status),
        Err(status) if status.code() == tonic::Code::Unimplemented => Outcome::Failure(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
            status.message()
        )),
        Err(status) => Outcome::Failure(format!("error: health rpc probe failed: {}", crate::cri::describe(&status))),
    }
}

fn judge(status: i32) -> Outcome {
    match ServingStatus::try_from(status).unwrap_or(ServingStatus::Unknown) {
        ServingStatus::Serving => Outcome::Success,
        other => Outcome::Failure(format!("service unhealthy (responded with {:?})", other.text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_serving_is_healthy() {
        assert_eq!(judge(1), Outcome::Success);
        assert_eq!(judge(2), Outcome::Failure("service unhealthy (responded with \"NOT_SERVING\")".into()));
    }
}

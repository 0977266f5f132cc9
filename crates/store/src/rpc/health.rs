//! `grpc.health.v1`, as etcd answers it: the server as a whole serves from when it takes calls until it stops.

use component::Shutdown;
use futures::{StreamExt, stream, stream::BoxStream};
use tonic::{Request, Response, Status};

/// The protocol.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod pb {
    tonic::include_proto!("grpc.health.v1");
}

pub(super) use pb::health_server::HealthServer;
use pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus};

/// The service.
#[derive(Clone)]
pub(super) struct Health {
    pub(super) stop: Shutdown,
}

impl Health {
    fn answer(&self) -> HealthCheckResponse {
        let status = if self.stop.is_cancelled() { ServingStatus::NotServing } else { ServingStatus::Serving };
        HealthCheckResponse { status: status.into() }
    }
}

#[tonic::async_trait]
impl pb::health_server::Health for Health {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        match request.into_inner().service.as_str() {
            "" => Ok(Response::new(self.answer())),
            _ => Err(Status::not_found("unknown service")),
        }
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let known = request.into_inner().service.is_empty();
        let unknown = HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() };
        let first = if known { self.answer() } else { unknown };
        let health = self.clone();
        let last = stream::once(async move {
            health.stop.cancelled().await;
            if known { health.answer() } else { unknown }
        });
        Ok(Response::new(stream::iter([first]).chain(last).map(Ok).boxed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pb::health_server::Health as _;

    fn asked(service: &str) -> Request<HealthCheckRequest> {
        Request::new(HealthCheckRequest { service: service.into() })
    }

    #[tokio::test]
    async fn it_serves_until_it_stops_and_knows_no_single_services() {
        let health = Health { stop: Shutdown::new() };
        let mut told = health.watch(asked("")).await.unwrap().into_inner();
        assert_eq!(told.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
        assert_eq!(health.check(asked("")).await.unwrap().into_inner().status(), ServingStatus::Serving);
        assert_eq!(health.check(asked("etcdserverpb.KV")).await.unwrap_err().code(), tonic::Code::NotFound);
        health.stop.cancel();
        assert_eq!(told.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    }
}

//! A runtime behind a Unix socket: containerd, CRI-O or anything else that speaks CRI v1.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

use super::{Cri, CriResult, REQUEST, cri_calls, v1};
use v1::{image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient};

/// CRI's own limit on message size (upstream's `maxMsgSize`).
const MAX_MESSAGE: usize = 16 << 20;

/// Connection to a CRI socket; connects on first use and again after the runtime restarted.
#[derive(Clone)]
pub(crate) struct Socket {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The address is not one of a Unix socket.
    #[error("container runtime endpoint {0:?} is not a unix:// address or an absolute path")]
    Endpoint(String),
    /// The channel could not be set up.
    #[error("set up the channel to the container runtime")]
    Channel(#[from] tonic::transport::Error),
}

impl Socket {
    /// `endpoint`: `unix:///path` or an absolute path.
    pub(crate) fn new(endpoint: &str) -> Result<Self, Error> {
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        if !path.starts_with('/') {
            return Err(Error::Endpoint(endpoint.to_owned()));
        }
        let path = PathBuf::from(path);
        let connect = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
        });
        let channel =
            Endpoint::from_shared("http://cri.local")?.connect_timeout(Duration::from_secs(3)).connect_with_connector_lazy(connect);
        Ok(Self {
            runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE),
            images: ImageServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE),
        })
    }
}

macro_rules! socket_calls {
    ($($(#[$doc:meta])* $service:ident $call:ident($req:ident) -> $resp:ident, $deadline:expr;)*) => {
        #[async_trait]
        impl Cri for Socket {
            $(async fn $call(&self, request: v1::$req) -> CriResult<v1::$resp> {
                let deadline: fn(&v1::$req) -> Duration = $deadline;
                let deadline = deadline(&request);
                let call = async { self.$service.clone().$call(request).await };
                match tokio::time::timeout(deadline, call).await {
                    Ok(answer) => answer.map(tonic::Response::into_inner),
                    Err(_) => Err(tonic::Status::deadline_exceeded("context deadline exceeded")),
                }
            })*
        }
    };
}
cri_calls!(socket_calls);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn takes_paths_and_unix_addresses_only() {
        assert!(Socket::new("unix:///run/containerd/containerd.sock").is_ok());
        assert!(Socket::new("/run/containerd/containerd.sock").is_ok());
        assert!(Socket::new("tcp://127.0.0.1:1").is_err());
    }

    #[tokio::test]
    async fn reports_a_missing_socket_as_unavailable() {
        let socket = Socket::new("/nonexistent/cri.sock").unwrap();
        let status = socket.version(v1::VersionRequest::default()).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unavailable);
    }
}

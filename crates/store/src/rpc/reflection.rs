//! `grpc.reflection.v1`: what services and messages there are, for grpcurl and the like. etcd has none; nothing here is secret.

use std::collections::BTreeMap;

use anyhow::Context as _;
use futures::{StreamExt, stream::BoxStream};
use prost_reflect::{DescriptorPool, FileDescriptor};
use tonic::{Code, Request, Response, Status, Streaming};

/// The protocol.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod pb {
    tonic::include_proto!("grpc.reflection.v1");
}

pub(super) use pb::server_reflection_server::ServerReflectionServer;
use pb::{
    ErrorResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
    server_reflection_request::MessageRequest as Ask, server_reflection_response::MessageResponse as Answer,
};

/// gRPC's own services, as `build.rs` describes them.
const GRPC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/grpc.bin"));

/// The service.
#[derive(Clone)]
pub(super) struct Reflection(DescriptorPool);

impl Reflection {
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut pool = DescriptorPool::decode(etcd::DESCRIPTORS).context("read the descriptors of etcd's services")?;
        pool.decode_file_descriptor_set(GRPC).context("read the descriptors of gRPC's services")?;
        Ok(Self(pool))
    }

    fn answer(&self, ask: Option<&Ask>) -> Answer {
        let missing = |what: &str| Answer::ErrorResponse(ErrorResponse { error_code: Code::NotFound as i32, error_message: what.into() });
        let file = |found: Option<FileDescriptor>, name: &str| found.map_or_else(|| missing(&format!("{name} not found")), with_imports);
        match ask {
            Some(Ask::ListServices(_)) => {
                let service = self.0.services().map(|service| ServiceResponse { name: service.full_name().into() }).collect();
                Answer::ListServicesResponse(ListServiceResponse { service })
            }
            Some(Ask::FileByFilename(name)) => file(self.0.get_file_by_name(name), name),
            Some(Ask::FileContainingSymbol(name)) => file(self.containing(name), name),
            Some(Ask::FileContainingExtension(_) | Ask::AllExtensionNumbersOfType(_)) => missing("there are no extensions"),
            None => Answer::ErrorResponse(ErrorResponse {
                error_code: Code::InvalidArgument as i32,
                error_message: "nothing is asked for".into(),
            }),
        }
    }

    /// The file that has a service, one of its methods, a message, one of its fields, or an enum.
    fn containing(&self, name: &str) -> Option<FileDescriptor> {
        let found = |name: &str| {
            let service = self.0.get_service_by_name(name).map(|service| service.parent_file());
            let message = || self.0.get_message_by_name(name).map(|message| message.parent_file());
            service.or_else(message).or_else(|| self.0.get_enum_by_name(name).map(|kind| kind.parent_file()))
        };
        found(name).or_else(|| found(name.rsplit_once('.')?.0))
    }
}

fn with_imports(file: FileDescriptor) -> Answer {
    let (mut files, mut left) = (BTreeMap::new(), vec![file]);
    while let Some(file) = left.pop() {
        if files.insert(file.name().to_owned(), file.encode_to_vec().into()).is_none() {
            left.extend(file.dependencies());
        }
    }
    Answer::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto: files.into_values().collect() })
}

#[tonic::async_trait]
impl pb::server_reflection_server::ServerReflection for Reflection {
    type ServerReflectionInfoStream = BoxStream<'static, Result<ServerReflectionResponse, Status>>;

    async fn server_reflection_info(
        &self,
        requests: Request<Streaming<ServerReflectionRequest>>,
    ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
        let reflection = self.clone();
        let answers = requests.into_inner().map(move |request| {
            let request = request?;
            let answer = reflection.answer(request.message_request.as_ref());
            let valid_host = request.host.clone();
            Ok(ServerReflectionResponse { valid_host, original_request: Some(request), message_response: Some(answer) })
        });
        Ok(Response::new(answers.boxed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_listed_and_files_come_with_what_they_import() {
        let reflection = Reflection::new().unwrap();
        let Answer::ListServicesResponse(list) = reflection.answer(Some(&Ask::ListServices(String::new()))) else { panic!("no list") };
        let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
        for name in ["etcdserverpb.KV", "v3lockpb.Lock", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        for symbol in ["etcdserverpb.KV", "etcdserverpb.KV.Range", "mvccpb.KeyValue", "etcdserverpb.PutRequest.key"] {
            let answer = reflection.answer(Some(&Ask::FileContainingSymbol(symbol.into())));
            assert!(matches!(answer, Answer::FileDescriptorResponse(_)), "{symbol}");
        }
        let Answer::FileDescriptorResponse(files) = reflection.answer(Some(&Ask::FileContainingSymbol("etcdserverpb.KV".into()))) else {
            panic!("no file")
        };
        assert!(files.file_descriptor_proto.len() > 1, "its messages are in another file");
        assert!(matches!(reflection.answer(Some(&Ask::FileByFilename("no.proto".into()))), Answer::ErrorResponse(_)));
    }
}

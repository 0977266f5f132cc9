//! What a typed client does with HTTP: bodies and answers wrapped as upstream wraps them, frames of a watch.

use http::{Request, header};
use http_body_util::BodyExt as _;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use prost::Message;
use tests::Cluster;

use crate::messages::{TypeMeta, Unknown, WatchEvent};

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";

/// An answer: code, content type, body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

/// Wraps a message.
pub(crate) fn seal(api_version: &str, kind: &str, message: &impl Message) -> Vec<u8> {
    let type_meta = Some(TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() });
    [MAGIC, &Unknown { type_meta, raw: message.encode_to_vec() }.encode_to_vec()].concat()
}

/// Unwraps a message of a kind.
pub(crate) fn open<M: Message + Default>(bytes: &[u8], kind: &str) -> M {
    let unknown = Unknown::decode(bytes.strip_prefix(MAGIC).unwrap_or_else(|| panic!("no prefix in {bytes:?}"))).unwrap();
    assert_eq!(unknown.type_meta.unwrap().kind, kind);
    M::decode(&*unknown.raw).unwrap()
}

impl Answer {
    /// The message of an answer with this code.
    pub(crate) fn open<M: Message + Default>(&self, code: u16, kind: &str) -> M {
        assert_eq!((self.code, self.content_type.as_str()), (code, PROTOBUF), "{:?}", String::from_utf8_lossy(&self.body));
        open(&self.body, kind)
    }
}

/// Sends requests as the admin.
pub(crate) struct Typed(Client);

impl Typed {
    pub(crate) async fn new(cluster: &Cluster) -> Self {
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Self(Client::try_from(config).unwrap())
    }

    async fn send(&self, method: &str, path: &str, accept: &str, body: Vec<u8>) -> http::Response<Body> {
        let request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept).header(header::CONTENT_TYPE, PROTOBUF);
        self.0.send(request.body(Body::from(body)).unwrap()).await.unwrap()
    }

    /// One request in protobuf, with an answer in what is accepted.
    pub(crate) async fn ask(&self, method: &str, path: &str, accept: &str, body: Vec<u8>) -> Answer {
        let response = self.send(method, path, accept, body).await;
        let content_type = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes().to_vec();
        Answer { code, content_type, body }
    }

    pub(crate) async fn get(&self, path: &str, accept: &str) -> Answer {
        self.ask("GET", path, accept, Vec::new()).await
    }

    /// Follows a collection.
    pub(crate) async fn watch(&self, path: &str, accept: &str) -> Events {
        let response = self.send("GET", path, accept, Vec::new()).await;
        assert_eq!(response.headers()[header::CONTENT_TYPE], format!("{PROTOBUF};stream=watch"));
        Events { body: response.into_body(), rest: Vec::new() }
    }
}

/// The events of a watch.
pub(crate) struct Events {
    body: Body,
    rest: Vec<u8>,
}

impl Events {
    /// The next event of this type, which must be the next one at all, with its object.
    pub(crate) async fn next<M: Message + Default>(&mut self, event: &str, kind: &str) -> M {
        let frame = self.frame().await;
        let found = WatchEvent::decode(&*frame).unwrap();
        assert_eq!(found.kind, event);
        open(&found.object.unwrap().raw, kind)
    }

    async fn frame(&mut self) -> Vec<u8> {
        let length = self.take(4).await;
        let length = u32::from_be_bytes(length.try_into().unwrap());
        self.take(usize::try_from(length).unwrap()).await
    }

    async fn take(&mut self, length: usize) -> Vec<u8> {
        while self.rest.len() < length {
            let more = self.body.frame().await.expect("the watch goes on").unwrap();
            self.rest.extend_from_slice(&more.into_data().unwrap());
        }
        let left = self.rest.split_off(length);
        std::mem::replace(&mut self.rest, left)
    }
}

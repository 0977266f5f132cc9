//! Watch answers whose events were encoded before: on the wire the same as [`crate::etcdserverpb::WatchResponse`].
//!
//! An event that goes to many watchers is encoded once and shared.

use crate::etcdserverpb::ResponseHeader;
use bytes::Bytes;

/// [`crate::etcdserverpb::WatchResponse`], field for field, with each event in its encoded form.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchResponse {
    /// Where and when it was answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The watcher, unique within its stream.
    #[prost(int64, tag = "2")]
    pub watch_id: i64,
    /// Answers a create request.
    #[prost(bool, tag = "3")]
    pub created: bool,
    /// No further events for this watcher.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// Oldest revision still watchable, when the watcher fell behind it.
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    /// Why the watcher was cancelled.
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    /// More of the same revision follows.
    #[prost(bool, tag = "7")]
    pub fragment: bool,
    /// Encoded [`crate::mvccpb::Event`] messages: a message field and a bytes field look alike on the wire.
    #[prost(bytes = "bytes", repeated, tag = "11")]
    pub events: Vec<Bytes>,
}

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.Watch.rs"));
}
pub use generated::watch_server;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{etcdserverpb, mvccpb};
    use prost::Message;

    #[test]
    fn encoded_events_read_back_as_events() {
        let event = mvccpb::Event {
            r#type: mvccpb::event::EventType::Delete as i32,
            kv: Some(mvccpb::KeyValue { key: "k".into(), mod_revision: 7, ..Default::default() }),
            prev_kv: None,
        };
        let sent =
            WatchResponse { watch_id: 3, events: vec![event.encode_to_vec().into(), event.encode_to_vec().into()], ..Default::default() };
        let read = etcdserverpb::WatchResponse::decode(sent.encode_to_vec().as_slice()).unwrap();
        assert_eq!(read.watch_id, 3);
        assert_eq!(read.events, vec![event.clone(), event]);
    }
}

//! Messages from JSON and to it, by their descriptors, as protobuf maps them: bytes in base64, 64-bit numbers in quotes, fields
//! that hold their default left out. Names are those of the proto files; etcd's gateway is set so.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Deserializer;

/// What gRPC puts before a message: whether it is compressed, and its length.
const HEADER: usize = 5;

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    Wire(#[from] prost::DecodeError),
    #[error("the message is compressed")]
    Compressed,
}

/// A message in its frame, from the JSON value that a text begins with; from nothing, the message without content.
pub(super) fn frame(kind: &MessageDescriptor, json: &[u8]) -> Result<Bytes, Error> {
    let message = match json.trim_ascii() {
        b"" => DynamicMessage::new(kind.clone()),
        // As in etcd, what follows the first value is not looked at.
        json => read(kind, json)?,
    };
    Ok(framed(&message))
}

fn read(kind: &MessageDescriptor, json: &[u8]) -> Result<DynamicMessage, Error> {
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    Ok(DynamicMessage::deserialize_with_options(kind.clone(), &mut Deserializer::from_slice(json), &options)?)
}

fn framed(message: &DynamicMessage) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(HEADER + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    frame.put(&message.encode_to_vec()[..]);
    frame.freeze()
}

/// Takes the next whole message out of what has come in.
pub(super) fn unframe(buffer: &mut BytesMut) -> Result<Option<Bytes>, Error> {
    let Some(mut header) = buffer.get(..HEADER) else { return Ok(None) };
    if header.get_u8() != 0 {
        return Err(Error::Compressed);
    }
    let length = header.get_u32() as usize;
    if buffer.len() < HEADER + length {
        return Ok(None);
    }
    buffer.advance(HEADER);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// A message as JSON.
pub(super) fn json(kind: &MessageDescriptor, message: Bytes) -> Result<Vec<u8>, Error> {
    let message = DynamicMessage::decode(kind.clone(), message)?;
    let mut text = serde_json::Serializer::new(Vec::new());
    message.serialize_with_options(&mut text, &SerializeOptions::new().use_proto_field_name(true))?;
    Ok(text.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_reflect::DescriptorPool;

    fn kind(name: &str) -> MessageDescriptor {
        DescriptorPool::decode(etcd::DESCRIPTORS).unwrap().get_message_by_name(name).unwrap()
    }

    fn there_and_back(name: &str, text: &str) -> String {
        let kind = kind(name);
        let mut buffer = BytesMut::from(&frame(&kind, text.as_bytes()).unwrap()[..]);
        let message = unframe(&mut buffer).unwrap().unwrap();
        String::from_utf8(json(&kind, message).unwrap()).unwrap()
    }

    #[test]
    fn messages_are_mapped_as_protobuf_says() {
        let put = r#"{"key":"Zm9v","lease":"7587848943239572225","prev_kv":true}"#;
        assert_eq!(there_and_back("etcdserverpb.PutRequest", put), put);
        assert_eq!(there_and_back("etcdserverpb.PutRequest", r#"{"key":"","lease":0,"prevKv":true,"x":1}"#), r#"{"prev_kv":true}"#);
        assert_eq!(there_and_back("etcdserverpb.PutRequest", "  "), "{}");
        let compare = r#"{"compare":[{"target":"MOD","key":"Zm9v","mod_revision":"0"}]}"#;
        assert_eq!(there_and_back("etcdserverpb.TxnRequest", compare), compare);
    }

    #[test]
    fn what_is_no_message_is_told_of() {
        assert!(frame(&kind("etcdserverpb.PutRequest"), b"{").is_err());
        assert!(frame(&kind("etcdserverpb.PutRequest"), br#"{"lease":"x"}"#).is_err());
    }
}

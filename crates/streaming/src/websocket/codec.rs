//! Messages of the channel protocols: the channel's number first, then its bytes.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Bytes, BytesMut};
use tokio_tungstenite::tungstenite::Message;

use crate::Malformed;

/// The number that, before a channel's, closes that.
const CLOSE: u8 = 255;

/// How a protocol writes its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// `channel.k8s.io` and `v4.channel.k8s.io`.
    Binary,
    /// `v5.channel.k8s.io`: a client may close its half of a channel.
    Closing,
    /// `base64.channel.k8s.io` and `v4.base64.channel.k8s.io`: text, the number as a digit.
    Base64,
}

/// What a client's message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Data(u8, Bytes),
    Close(u8),
}

impl Codec {
    /// Reads a message; `None` where it says nothing. Errors: the protocol is broken.
    pub(crate) fn decode(self, mut message: Bytes) -> Result<Option<Event>, Malformed> {
        let Some(first) = message.first().copied() else { return Ok(None) };
        let rest = message.split_off(1);
        match self {
            Self::Closing if first == CLOSE => match rest[..] {
                [channel] => Ok(Some(Event::Close(channel))),
                _ => Err(Malformed("a close signal without one channel")),
            },
            Self::Base64 => {
                // Upstream too leaves out what it cannot decode.
                let bytes = STANDARD.decode(&rest).ok();
                Ok(bytes.map(|bytes| Event::Data(first.wrapping_sub(b'0'), bytes.into())))
            }
            _ => Ok(Some(Event::Data(first, rest))),
        }
    }

    /// Writes bytes for a channel.
    pub(crate) fn encode(self, channel: u8, bytes: &[u8]) -> Message {
        if self == Self::Base64 {
            let digit = char::from(b'0'.wrapping_add(channel));
            return Message::text(format!("{digit}{}", STANDARD.encode(bytes)));
        }
        let mut message = BytesMut::with_capacity(1 + bytes.len());
        message.extend_from_slice(&[channel]);
        message.extend_from_slice(bytes);
        Message::Binary(message.freeze())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(codec: Codec, message: &[u8]) -> Result<Option<Event>, Malformed> {
        codec.decode(Bytes::copy_from_slice(message))
    }

    #[test]
    fn messages_look_as_upstream_documents_them() {
        assert_eq!(decoded(Codec::Binary, b"\0foo\n").unwrap(), Some(Event::Data(0, "foo\n".into())));
        assert_eq!(decoded(Codec::Base64, b"0Zm9vCg==").unwrap(), Some(Event::Data(0, "foo\n".into())));
        assert_eq!(Codec::Binary.encode(1, b"\n"), Message::binary(vec![1, 10]));
        assert_eq!(Codec::Base64.encode(1, b"\n"), Message::text("1Cg=="));
    }

    #[test]
    fn only_version_5_closes_channels() {
        assert_eq!(decoded(Codec::Closing, &[255, 0]).unwrap(), Some(Event::Close(0)));
        assert_eq!(decoded(Codec::Binary, &[255, 0]).unwrap(), Some(Event::Data(255, Bytes::from_static(&[0]))));
        assert!(decoded(Codec::Closing, &[255]).is_err() && decoded(Codec::Closing, &[255, 0, 0]).is_err());
    }

    #[test]
    fn an_empty_message_and_bad_base64_say_nothing() {
        assert_eq!(decoded(Codec::Closing, b"").unwrap(), None);
        assert_eq!(decoded(Codec::Base64, b"0###").unwrap(), None);
    }

    proptest! {
        #[test]
        fn no_message_makes_the_decoder_panic(message: Vec<u8>) {
            for codec in [Codec::Binary, Codec::Closing, Codec::Base64] {
                let _ = decoded(codec, &message);
            }
        }

        #[test]
        fn data_survives_the_way(channel in 0_u8..5, bytes: Vec<u8>) {
            for codec in [Codec::Binary, Codec::Closing, Codec::Base64] {
                let message = codec.encode(channel, &bytes).into_data();
                prop_assert_eq!(codec.decode(message).unwrap(), Some(Event::Data(channel, bytes.clone().into())));
            }
        }
    }
}

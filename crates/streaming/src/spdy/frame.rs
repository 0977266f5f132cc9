//! Frames of SPDY/3.1.

use bytes::Bytes;

use super::headers::{Compressor, Decompressor, Headers};
use crate::Malformed;

/// Bytes before every frame's payload.
pub(super) const HEAD: usize = 8;
/// A control frame may have this many more. Kubernetes sends fewer than a hundred.
pub(super) const MOST_CONTROL: usize = 16 * 1024;

const VERSION: u16 = 3;
const FIN: u8 = 1;
const UNIDIRECTIONAL: u8 = 2;

/// Why a stream is reset: those of the specification that are sent here.
pub(super) mod reset {
    pub(in crate::spdy) const PROTOCOL_ERROR: u32 = 1;
    pub(in crate::spdy) const REFUSED_STREAM: u32 = 3;
    pub(in crate::spdy) const CANCEL: u32 = 5;
}

/// Why a peer goes away.
pub(super) mod goaway {
    pub(in crate::spdy) const OK: u32 = 0;
    pub(in crate::spdy) const PROTOCOL_ERROR: u32 = 1;
}

/// One frame. Priorities, credentials' slots and settings mean nothing between Kubernetes' peers and are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Data { stream: u32, fin: bool, bytes: Bytes },
    SynStream { stream: u32, associated: u32, fin: bool, unidirectional: bool, headers: Headers },
    SynReply { stream: u32, fin: bool, headers: Headers },
    RstStream { stream: u32, status: u32 },
    Settings(Vec<(u32, u32)>),
    Ping(u32),
    GoAway { last: u32, status: u32 },
    Headers { stream: u32, fin: bool, headers: Headers },
    WindowUpdate { stream: u32, delta: u32 },
}

/// What the first eight bytes of a frame tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Data follows, which need not be read as a whole.
    Data { stream: u32, fin: bool, length: usize },
    /// The rest of a control frame follows.
    Control { kind: u16, flags: u8, length: usize },
}

impl Head {
    pub(super) fn parse(bytes: [u8; HEAD]) -> Result<Self, Malformed> {
        let [a, b, c, d, flags, x, y, z] = bytes;
        let length = usize::try_from(u32::from_be_bytes([0, x, y, z])).map_err(|_| Malformed("a frame that is too long"))?;
        let first = u32::from_be_bytes([a, b, c, d]);
        if first >> 31 == 0 {
            return Ok(Self::Data { stream: nonzero(first)?, fin: flags & FIN != 0, length });
        }
        if u16::from_be_bytes([a & 0x7f, b]) != VERSION {
            return Err(Malformed("a frame of another version of SPDY"));
        }
        if length > MOST_CONTROL {
            return Err(Malformed("a control frame that is too long"));
        }
        Ok(Self::Control { kind: u16::from_be_bytes([c, d]), flags, length })
    }
}

/// Reads the payload of a control frame; `None` for kinds nobody needs to know.
pub(super) fn control(kind: u16, flags: u8, payload: &[u8], inflate: &mut Decompressor) -> Result<Option<Frame>, Malformed> {
    let mut rest = payload;
    let fin = flags & FIN != 0;
    let mut headers = |block: &[u8]| Headers::decode(&inflate.decompress(block)?);
    let frame = match kind {
        1 => {
            let (stream, associated) = (nonzero(word(&mut rest)?)?, word(&mut rest)? & 0x7fff_ffff);
            let block = rest.get(2..).ok_or(Malformed("a frame that ends early"))?;
            Frame::SynStream { stream, associated, fin, unidirectional: flags & UNIDIRECTIONAL != 0, headers: headers(block)? }
        }
        2 => Frame::SynReply { stream: nonzero(word(&mut rest)?)?, fin, headers: headers(rest)? },
        3 => Frame::RstStream { stream: nonzero(word(&mut rest)?)?, status: word(&mut rest)? },
        4 => settings(rest)?,
        6 => Frame::Ping(word(&mut rest)?),
        7 => Frame::GoAway { last: word(&mut rest)? & 0x7fff_ffff, status: word(&mut rest)? },
        8 => Frame::Headers { stream: nonzero(word(&mut rest)?)?, fin, headers: headers(rest)? },
        9 => Frame::WindowUpdate { stream: word(&mut rest)? & 0x7fff_ffff, delta: word(&mut rest)? & 0x7fff_ffff },
        _ => return Ok(None),
    };
    Ok(Some(frame))
}

fn settings(mut rest: &[u8]) -> Result<Frame, Malformed> {
    let count = word(&mut rest)?;
    if rest.len() as u64 != u64::from(count) * 8 {
        return Err(Malformed("settings of another length than they say"));
    }
    let mut settings = Vec::new();
    while !rest.is_empty() {
        settings.push((word(&mut rest)? & 0x00ff_ffff, word(&mut rest)?));
    }
    Ok(Frame::Settings(settings))
}

fn word(rest: &mut &[u8]) -> Result<u32, Malformed> {
    let (word, after) = rest.split_first_chunk::<4>().ok_or(Malformed("a frame that ends early"))?;
    *rest = after;
    Ok(u32::from_be_bytes(*word))
}

fn nonzero(stream: u32) -> Result<u32, Malformed> {
    match stream & 0x7fff_ffff {
        0 => Err(Malformed("a frame for stream 0")),
        stream => Ok(stream),
    }
}

impl Frame {
    /// The frame's bytes: all but the data of a data frame, which the caller writes after them.
    pub(super) fn encode(&self, deflate: &mut Compressor) -> Result<Vec<u8>, Malformed> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let (kind, flags, payload) = match self {
            Self::Data { stream, fin, bytes } => return Ok(words(&[*stream, length(bytes.len(), u8::from(*fin))?])),
            Self::SynStream { stream, associated, fin, unidirectional, headers } => {
                const PRIORITY_AND_SLOT: [u8; 2] = [0; 2];
                let payload = [words(&[*stream, *associated]), PRIORITY_AND_SLOT.to_vec(), deflate.compress(headers)?];
                (1, (u8::from(*fin) * FIN) | (u8::from(*unidirectional) * UNIDIRECTIONAL), payload.concat())
            }
            Self::SynReply { stream, fin, headers } => (2, u8::from(*fin), [words(&[*stream]), deflate.compress(headers)?].concat()),
            Self::RstStream { stream, status } => (3, 0, words(&[*stream, *status])),
            Self::Settings(settings) => {
                let count = u32::try_from(settings.len()).map_err(|_| Malformed("a frame that is too long"))?;
                (4, 0, [words(&[count]), settings.iter().flat_map(|(id, value)| words(&[*id, *value])).collect()].concat())
            }
            Self::Ping(id) => (6, 0, words(&[*id])),
            Self::GoAway { last, status } => (7, 0, words(&[*last, *status])),
            Self::Headers { stream, fin, headers } => (8, u8::from(*fin), [words(&[*stream]), deflate.compress(headers)?].concat()),
            Self::WindowUpdate { stream, delta } => (9, 0, words(&[*stream, *delta])),
        };
        let head = (u32::from(0x8000 | VERSION) << 16) | kind;
        Ok([words(&[head, length(payload.len(), flags)?]), payload].concat())
    }
}

fn length(bytes: usize, flags: u8) -> Result<u32, Malformed> {
    let length = u32::try_from(bytes).ok().filter(|length| length >> 24 == 0).ok_or(Malformed("a frame that is too long"))?;
    Ok((u32::from(flags) << 24) | length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers() -> impl Strategy<Value = Headers> {
        let pairs = proptest::collection::btree_map("[a-z]{1,9}", "[ -~]{0,30}", 0..4);
        pairs.prop_map(|pairs| Headers::new(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
    }

    fn control_frames() -> impl Strategy<Value = Frame> {
        let id = 1..0x8000_0000_u32;
        let syn = (id.clone(), 0..0x8000_0000_u32, any::<bool>(), any::<bool>(), headers());
        let settings = proptest::collection::vec((0..0x0100_0000_u32, any::<u32>()), 0..5);
        prop_oneof![
            syn.prop_map(|(stream, associated, fin, unidirectional, headers)| Frame::SynStream {
                stream,
                associated,
                fin,
                unidirectional,
                headers
            }),
            (id.clone(), any::<bool>(), headers()).prop_map(|(stream, fin, headers)| Frame::SynReply { stream, fin, headers }),
            (id.clone(), any::<u32>()).prop_map(|(stream, status)| Frame::RstStream { stream, status }),
            settings.prop_map(Frame::Settings),
            any::<u32>().prop_map(Frame::Ping),
            (0..0x8000_0000_u32, any::<u32>()).prop_map(|(last, status)| Frame::GoAway { last, status }),
            (id.clone(), any::<bool>(), headers()).prop_map(|(stream, fin, headers)| Frame::Headers { stream, fin, headers }),
            (0..0x8000_0000_u32, 0..0x8000_0000_u32).prop_map(|(stream, delta)| Frame::WindowUpdate { stream, delta }),
        ]
    }

    fn decoded(bytes: &[u8], inflate: &mut Decompressor) -> Result<Option<Frame>, Malformed> {
        let (head, payload) = bytes.split_first_chunk::<HEAD>().ok_or(Malformed("no frame"))?;
        match Head::parse(*head)? {
            Head::Control { kind, flags, length } => {
                control(kind, flags, payload.get(..length).ok_or(Malformed("a frame that ends early"))?, inflate)
            }
            Head::Data { stream, fin, length } => {
                let bytes = payload.get(..length).ok_or(Malformed("a frame that ends early"))?;
                Ok(Some(Frame::Data { stream, fin, bytes: Bytes::copy_from_slice(bytes) }))
            }
        }
    }

    #[test]
    fn frames_look_as_the_specification_draws_them() {
        let mut deflate = Compressor::new();
        let mut bytes = |frame: Frame| frame.encode(&mut deflate).unwrap();
        assert_eq!(bytes(Frame::Ping(3)), [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 3]);
        assert_eq!(bytes(Frame::RstStream { stream: 5, status: reset::CANCEL }), [0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 5]);
        let end = Frame::Data { stream: 1, fin: true, bytes: Bytes::new() };
        assert_eq!(bytes(end), [0, 0, 0, 1, 1, 0, 0, 0]);
        let syn = Frame::SynStream { stream: 1, associated: 0, fin: false, unidirectional: false, headers: Headers::default() };
        assert_eq!(bytes(syn)[..4], [0x80, 3, 0, 1]);
    }

    #[test]
    fn a_frame_of_http2_is_no_frame() {
        assert!(Head::parse(*b"PRI * HT").is_ok_and(|head| matches!(head, Head::Data { .. })));
        assert_eq!(Head::parse([0x80, 2, 0, 1, 0, 0, 0, 0]), Err(Malformed("a frame of another version of SPDY")));
        assert_eq!(Head::parse([0x80, 3, 0, 1, 0, 0xff, 0, 0]), Err(Malformed("a control frame that is too long")));
        assert_eq!(Head::parse([0, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed("a frame for stream 0")));
    }

    proptest! {
        #[test]
        fn control_frames_survive_the_way(frames in proptest::collection::vec(control_frames(), 1..8)) {
            let (mut deflate, mut inflate) = (Compressor::new(), Decompressor::new());
            for frame in frames {
                let bytes = frame.encode(&mut deflate).unwrap();
                prop_assert_eq!(decoded(&bytes, &mut inflate).unwrap(), Some(frame));
            }
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>, kind in 0_u16..12, flags: u8) {
            let _ = decoded(&bytes, &mut Decompressor::new());
            let _ = control(kind, flags, &bytes, &mut Decompressor::new());
        }

        #[test]
        fn a_damaged_frame_is_refused_or_read(frame in control_frames(), at: prop::sample::Index, with: u8) {
            let mut bytes = frame.encode(&mut Compressor::new()).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = with;
            let _ = decoded(&bytes, &mut Decompressor::new());
        }
    }
}

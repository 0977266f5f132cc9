//! What kubelet and shim say to each other while a client is attached: a kind, a length, and as many bytes.

/// Most bytes in one frame.
pub(super) const MOST: usize = 32 * 1024;
/// Kind and length.
pub(super) const HEAD: usize = 5;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// From the kubelet, first: which streams are wanted.
    Hello = 1,
    /// From the kubelet: input.
    Stdin = 2,
    /// From the kubelet: there is no more input.
    StdinEnd = 3,
    /// From the kubelet: the terminal's size.
    Resize = 4,
    /// From the shim: output.
    Stdout = 5,
    /// From the shim: output on stderr.
    Stderr = 6,
}

/// The streams a client wants, in [`Kind::Hello`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
}

impl Hello {
    pub(super) fn encode(self) -> [u8; 3] {
        [self.stdin.into(), self.stdout.into(), self.stderr.into()]
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let [stdin, stdout, stderr] = *bytes else { return None };
        Some(Self { stdin: stdin != 0, stdout: stdout != 0, stderr: stderr != 0 })
    }
}

/// The bytes of [`Kind::Resize`].
pub(super) fn encode_size(columns: u16, rows: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (columns.to_be_bytes(), rows.to_be_bytes());
    [a, b, c, d]
}

/// Columns and rows.
pub(super) fn decode_size(bytes: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *bytes else { return None };
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// A whole frame. `payload` has at most [`MOST`] bytes.
pub(super) fn encode(kind: Kind, payload: &[u8]) -> Vec<u8> {
    debug_assert!(payload.len() <= MOST);
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(HEAD + payload.len());
    frame.push(kind as u8);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Kind and length of what follows; `None` if the other side does not speak this.
pub(super) fn decode_head(head: [u8; HEAD]) -> Option<(Kind, usize)> {
    let [kind, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(length)).ok().filter(|length| *length <= MOST)?;
    const KINDS: [Kind; 6] = [Kind::Hello, Kind::Stdin, Kind::StdinEnd, Kind::Resize, Kind::Stdout, Kind::Stderr];
    let kind = KINDS.into_iter().find(|known| *known as u8 == kind)?;
    Some((kind, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head_of(frame: &[u8]) -> [u8; HEAD] {
        frame[..HEAD].try_into().unwrap()
    }

    #[test]
    fn reads_what_it_writes() {
        let frame = encode(Kind::Stdin, b"abc");
        assert_eq!(decode_head(head_of(&frame)), Some((Kind::Stdin, 3)));
        assert_eq!(&frame[HEAD..], b"abc");
        let hello = Hello { stdin: true, stdout: false, stderr: true };
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        assert_eq!(decode_size(&encode_size(120, 40)), Some((120, 40)));
    }

    #[test]
    fn refuses_kinds_and_lengths_nobody_sends() {
        assert_eq!(decode_head([0, 0, 0, 0, 1]), None);
        assert_eq!(decode_head([7, 0, 0, 0, 1]), None);
        assert_eq!(decode_head([2, 0, 1, 0, 0]), None);
        assert_eq!(Hello::decode(b"\x01"), None);
        assert_eq!(decode_size(b"\x01\x02\x03"), None);
    }
}

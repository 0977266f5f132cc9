//! Counts gRPC messages and their bytes as they pass by in the frames of a body.

/// Bytes before each message: compressed or not, then its length.
const PREFIX: usize = 5;

/// Where in the stream of messages the next byte belongs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frames {
    prefix: [u8; PREFIX],
    /// Bytes of the prefix that are there.
    filled: usize,
    /// Bytes of the message that are still to come.
    left: usize,
}

impl Frames {
    /// Sees the next bytes; how many messages begin in them, and how many bytes of messages they have.
    pub(crate) fn see(&mut self, mut bytes: &[u8]) -> (u64, u64) {
        let (mut messages, mut size) = (0, 0);
        while !bytes.is_empty() {
            let message = self.left.min(bytes.len());
            (self.left, size) = (self.left - message, size + message as u64);
            bytes = &bytes[message..];
            let prefix = (PREFIX - self.filled).min(bytes.len());
            self.prefix[self.filled..self.filled + prefix].copy_from_slice(&bytes[..prefix]);
            self.filled += prefix;
            bytes = &bytes[prefix..];
            if self.filled == PREFIX {
                let [_, length @ ..] = self.prefix;
                (self.left, self.filled) = (u32::from_be_bytes(length) as usize, 0);
                messages += 1;
            }
        }
        (messages, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        let mut stream = Vec::new();
        for size in [0usize, 3, 70_000, 1, 0] {
            stream.push(0);
            stream.extend((size as u32).to_be_bytes());
            stream.extend(vec![7; size]);
        }
        for cut in [1, 2, 4, 5, 7, 1000, stream.len()] {
            let mut frames = Frames::default();
            let seen = stream.chunks(cut).map(|chunk| frames.see(chunk));
            let (messages, bytes) = seen.fold((0, 0), |sum, seen| (sum.0 + seen.0, sum.1 + seen.1));
            assert_eq!((messages, bytes), (5, 70_004), "cut at {cut}");
        }
    }
}

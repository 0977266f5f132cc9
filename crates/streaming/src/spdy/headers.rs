//! Header blocks: names and values, compressed with one zlib stream a direction.

use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateError, InflateFlush};

use super::dictionary::DICTIONARY;
use crate::Malformed;

/// A block is not inflated further: Kubernetes sends a few words, a bomb megabytes.
pub(super) const MOST: usize = 16 * 1024;

/// The headers that open a stream, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// From names and values.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect())
    }

    /// The first value of that name, whatever its case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let (_, values) = self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        values.split('\0').next()
    }

    fn encode(&self) -> Vec<u8> {
        let mut block = length(self.0.len()).to_vec();
        for text in self.0.iter().flat_map(|(name, value)| [name, value]) {
            block.extend(length(text.len()));
            block.extend(text.as_bytes());
        }
        block
    }

    /// Reads an inflated block.
    pub(super) fn decode(mut block: &[u8]) -> Result<Self, Malformed> {
        let count = number(&mut block)?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let name = text(&mut block)?.to_ascii_lowercase();
            let value = text(&mut block)?;
            if pairs.iter().any(|(known, _)| *known == name) {
                return Err(Malformed("the same header twice"));
            }
            pairs.push((name, value));
        }
        if block.is_empty() { Ok(Self(pairs)) } else { Err(Malformed("bytes after the last header")) }
    }
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()
}

fn number(block: &mut &[u8]) -> Result<usize, Malformed> {
    let (head, rest) = block.split_first_chunk::<4>().ok_or(Malformed("a header block that ends early"))?;
    *block = rest;
    usize::try_from(u32::from_be_bytes(*head)).map_err(|_| Malformed("a header block that ends early"))
}

fn text(block: &mut &[u8]) -> Result<String, Malformed> {
    let length = number(block)?;
    let (text, rest) = block.split_at_checked(length).ok_or(Malformed("a header block that ends early"))?;
    *block = rest;
    String::from_utf8(text.to_vec()).map_err(|_| Malformed("a header that is not UTF-8"))
}

/// Deflates the blocks of one direction.
pub(super) struct Compressor(Deflate);

impl Compressor {
    pub(super) fn new() -> Self {
        const LEVEL: i32 = 6;
        const WINDOW_BITS: u8 = 15;
        let mut deflate = Deflate::new(LEVEL, true, WINDOW_BITS);
        // Fails only on a stream that is in use already.
        let _ = deflate.set_dictionary(DICTIONARY);
        Self(deflate)
    }

    pub(super) fn compress(&mut self, headers: &Headers) -> Result<Vec<u8>, Malformed> {
        let block = headers.encode();
        // Deflate adds a few bytes to what it cannot shorten; the flush and the stream's head need some more.
        let mut output = vec![0; block.len() + block.len() / 8 + 128];
        let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
        self.0.compress(&block, &mut output, DeflateFlush::SyncFlush).map_err(|_| Malformed("headers that cannot be compressed"))?;
        let (taken, given) = (self.0.total_in() - before_in, self.0.total_out() - before_out);
        if taken != block.len() as u64 || given >= output.len() as u64 {
            return Err(Malformed("headers that cannot be compressed"));
        }
        output.truncate(usize::try_from(given).unwrap_or(0));
        Ok(output)
    }
}

/// Inflates the blocks of one direction.
pub(super) struct Decompressor(Inflate);

impl Decompressor {
    pub(super) fn new() -> Self {
        const WINDOW_BITS: u8 = 15;
        Self(Inflate::new(true, WINDOW_BITS))
    }

    /// Inflates one block. After an error the stream of blocks cannot be read further.
    pub(super) fn decompress(&mut self, mut block: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut output = vec![0; MOST];
        let mut filled = 0;
        loop {
            let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
            let result = self.0.decompress(block, &mut output[filled..], InflateFlush::SyncFlush);
            let taken = usize::try_from(self.0.total_in() - before_in).unwrap_or(0);
            let given = usize::try_from(self.0.total_out() - before_out).unwrap_or(0);
            (block, filled) = (&block[taken..], filled + given);
            match result {
                Err(InflateError::NeedDict { .. }) => {
                    self.0.set_dictionary(DICTIONARY).map_err(|_| Malformed("headers of another dictionary"))?;
                }
                Err(_) => return Err(Malformed("headers that cannot be inflated")),
                Ok(_) if filled == MOST => return Err(Malformed("headers that are too long")),
                Ok(_) if block.is_empty() => break,
                Ok(_) if taken == 0 && given == 0 => return Err(Malformed("headers that cannot be inflated")),
                Ok(_) => {}
            }
        }
        output.truncate(filled);
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn inflated(decompressor: &mut Decompressor, block: &[u8]) -> Result<Headers, Malformed> {
        Headers::decode(&decompressor.decompress(block)?)
    }

    #[test]
    fn the_dictionary_is_the_specifications() {
        assert_eq!(DICTIONARY.len(), 1423);
        let block = Compressor::new().compress(&Headers::default()).unwrap();
        assert_eq!(block[2..6], 0xe3c6_a7c2_u32.to_be_bytes());
    }

    #[test]
    fn blocks_of_one_direction_build_on_each_other() {
        let (mut compressor, mut decompressor) = (Compressor::new(), Decompressor::new());
        let mut sizes = Vec::new();
        for kind in ["error", "stdin", "stdout"] {
            let headers = Headers::new([("streamType", kind)]);
            let block = compressor.compress(&headers).unwrap();
            assert_eq!(inflated(&mut decompressor, &block).unwrap(), headers);
            sizes.push(block.len());
        }
        assert!(sizes[1] < sizes[0], "{sizes:?}");
    }

    #[test]
    fn names_are_found_in_any_case_and_the_first_value_counts() {
        let headers = Headers::new([("streamType", "data"), ("port", "80\0 81")]);
        assert_eq!((headers.get("STREAMTYPE"), headers.get("port"), headers.get("x")), (Some("data"), Some("80"), None));
    }

    #[test]
    fn a_bomb_is_not_inflated() {
        let headers = Headers::new([("a", "0".repeat(8 << 20).as_str())]);
        let block = Compressor::new().compress(&headers).unwrap();
        assert!(block.len() < MOST, "{}", block.len());
        assert_eq!(Decompressor::new().decompress(&block), Err(Malformed("headers that are too long")));
    }

    #[test]
    fn another_dictionary_is_refused() {
        let mut deflate = Deflate::new(6, true, 15);
        deflate.set_dictionary(b"something else").unwrap();
        let mut block = [0; 64];
        deflate.compress(&[0; 4], &mut block, DeflateFlush::SyncFlush).unwrap();
        assert!(Decompressor::new().decompress(&block).is_err());
    }

    proptest! {
        #[test]
        fn headers_survive_the_way(pairs in proptest::collection::btree_map("[a-z-]{1,20}", ".{0,200}", 0..10)) {
            let headers = Headers::new(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            let block = Compressor::new().compress(&headers).unwrap();
            prop_assert_eq!(inflated(&mut Decompressor::new(), &block), Ok(headers));
        }

        #[test]
        fn no_bytes_make_the_decoders_panic(block: Vec<u8>) {
            let _ = Headers::decode(&block);
            let _ = Decompressor::new().decompress(&block);
        }

        #[test]
        fn a_damaged_block_is_refused_or_read(at in 0_usize..40, with: u8, rest: Vec<u8>) {
            let mut block = Compressor::new().compress(&Headers::new([("streamtype", "stdin"), ("port", "8080")])).unwrap();
            let at = at % block.len();
            block[at] = with;
            block.extend(rest);
            let _ = inflated(&mut Decompressor::new(), &block);
        }
    }
}

//! The numbers of bbolt's file format. Everything is little-endian.
//!
//! A file is a row of pages of one size. Pages 0 and 1 hold the meta record; the others hold nodes of the trees, each
//! at a multiple of the page size and as many pages long as it needs.

/// Page size of the files written here.
pub const PAGE_SIZE: usize = 4096;
/// Bytes before the elements of a page: number (u64), kind (u16), count (u16), pages beyond the first (u32).
pub const HEADER: usize = 16;
/// Bytes of an element: in a leaf flags, place, key length, value length (u32 each); in a branch place, key length
/// (u32 each), page (u64). The place counts from the element itself.
pub const ELEMENT: usize = 16;
/// Bytes of a meta record, its checksum included.
pub const META: usize = 64;
/// Longest key bbolt takes.
pub const LONGEST_KEY: usize = 32768;

/// Kind of a page of branch elements.
pub const BRANCH: u16 = 0x01;
/// Kind of a page of leaf elements.
pub const LEAF: u16 = 0x02;
/// Kind of pages 0 and 1.
pub const META_PAGE: u16 = 0x04;
/// Kind of the page that lists free pages.
pub const FREELIST: u16 = 0x10;
/// Flag of a leaf element that is a bucket: root page (u64, 0 when the one leaf follows in place), sequence (u64).
pub const BUCKET: u32 = 0x01;
/// Bytes of a bucket's value.
pub const BUCKET_HEADER: usize = 16;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;

/// What a meta record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Size of all pages.
    pub page_size: u32,
    /// Root page of the bucket of buckets.
    pub root: u64,
    /// Page of the list of free pages.
    pub freelist: u64,
    /// First page number that is not in use.
    pub pages: u64,
    /// The transaction that wrote it; the higher one of two counts.
    pub transaction: u64,
}

impl Meta {
    /// The record with its checksum.
    pub fn encode(&self) -> [u8; META] {
        let mut out = [0; META];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        for number in [MAGIC, VERSION, self.page_size, 0] {
            put(&number.to_le_bytes());
        }
        for number in [self.root, 0, self.freelist, self.pages, self.transaction] {
            put(&number.to_le_bytes());
        }
        let sum = fnv(&out[..META - 8]);
        out[META - 8..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a record, unless it is none or its checksum is wrong.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..META)?;
        let intact = u32_at(bytes, 0)? == MAGIC && u32_at(bytes, 4)? == VERSION && u64_at(bytes, 56)? == fnv(&bytes[..56]);
        let page_size = u32_at(bytes, 8)?;
        let meta = Meta {
            page_size,
            root: u64_at(bytes, 16)?,
            freelist: u64_at(bytes, 32)?,
            pages: u64_at(bytes, 40)?,
            transaction: u64_at(bytes, 48)?,
        };
        (intact && page_size.is_power_of_two() && (512..=65536).contains(&page_size)).then_some(meta)
    }
}

/// The number at a place, if there are so many bytes.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number at a place, if there are so many bytes.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number at a place, if there are so many bytes.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meta_record_reads_back_and_a_changed_bit_is_seen() {
        let meta = Meta { page_size: 4096, root: 7, freelist: 2, pages: 9, transaction: 5 };
        let bytes = meta.encode();
        assert_eq!(Meta::decode(&bytes), Some(meta));
        for bit in 0..META * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Meta::decode(&damaged), None, "bit {bit}");
        }
        assert_eq!(Meta::decode(&bytes[..META - 1]), None);
    }

    #[test]
    fn the_checksum_is_fnv_1a() {
        assert_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"foobar"), 0x8594_4171_f739_67e8);
    }
}

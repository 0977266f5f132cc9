//! CRC-32C (Castagnoli), also of parts whose order is known only later.

const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[i][b]`: what byte `b` does to a sum that `i` more bytes follow.
const TABLES: [[u32; 256]; 8] = tables();

/// `POWERS[i]`: x to the 2^i, modulo the polynomial.
const POWERS: [u32; 64] = powers();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = halve(sum);
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut i = 1;
    while i < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[i - 1][byte];
            tables[i][byte] = before >> 8 ^ tables[0][(before & 255) as usize];
            byte += 1;
        }
        i += 1;
    }
    tables
}

const fn powers() -> [u32; 64] {
    let mut powers = [1 << 30; 64];
    let mut i = 1;
    while i < 64 {
        powers[i] = multiply(powers[i - 1], powers[i - 1]);
        i += 1;
    }
    powers
}

/// Times x, modulo the polynomial; coefficients count from the highest bit.
const fn halve(factor: u32) -> u32 {
    if factor & 1 == 1 { factor >> 1 ^ POLYNOMIAL } else { factor >> 1 }
}

/// Product modulo the polynomial.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = halve(b);
        bit >>= 1;
    }
    product
}

/// A sum over bytes that came before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc32c(u32);

impl Crc32c {
    /// The sum of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = Self::default();
        sum.update(bytes);
        sum
    }

    /// Goes on with more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut sum = !self.0;
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut next = 0;
            for (i, byte) in chunk.iter().enumerate() {
                let byte = if i < 4 { byte ^ (sum >> (8 * i)) as u8 } else { *byte };
                next ^= TABLES[7 - i][usize::from(byte)];
            }
            sum = next;
        }
        for byte in chunks.remainder() {
            sum = sum >> 8 ^ TABLES[0][usize::from(byte ^ sum as u8)];
        }
        self.0 = !sum;
    }

    /// Goes on with `length` bytes of which only the sum is known.
    pub fn append(&mut self, sum: Self, length: u64) {
        // So many zero bits: x to the 8 * length.
        let mut factor = 1 << 31;
        for i in (0..61).filter(|i| length >> i & 1 == 1) {
            factor = multiply(factor, POWERS[i + 3]);
        }
        self.0 = multiply(factor, self.0) ^ sum.0;
    }

    /// The number.
    pub fn value(self) -> u32 {
        self.0
    }

    /// Reads [`Crc32c::value`].
    pub fn from_value(value: u32) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(Crc32c::of(b"").value(), 0);
        assert_eq!(Crc32c::of(b"123456789").value(), 0xe306_9283);
        // RFC 3720, B.4.
        assert_eq!(Crc32c::of(&[0; 32]).value(), 0x8a91_36aa);
        assert_eq!(Crc32c::of(&[0xff; 32]).value(), 0x62a8_ab43);
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_whole(a in prop::collection::vec(any::<u8>(), 0..200), b in prop::collection::vec(any::<u8>(), 0..200)) {
            let whole = Crc32c::of(&[&a[..], &b].concat());
            let mut updated = Crc32c::of(&a);
            updated.update(&b);
            prop_assert_eq!(updated, whole);
            let mut appended = Crc32c::of(&a);
            appended.append(Crc32c::of(&b), b.len() as u64);
            prop_assert_eq!(appended, whole);
        }
    }
}

//! Passwords as etcd keeps them: bcrypt hashes. Making or checking one takes tens of milliseconds of a processor.

use bcrypt::Version;

/// Bytes of a password that bcrypt looks at; a longer one is refused, as etcd does.
const LONGEST: usize = 72;

/// What a hash may cost: two to the power of it.
pub const COSTS: std::ops::RangeInclusive<u32> = 4..=31;

/// Cost of a hash when none is asked for; etcd's.
pub const DEFAULT_COST: u32 = 10;

/// Why there is no hash.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is bcrypt's in etcd.
    #[error("bcrypt: password length exceeds 72 bytes")]
    TooLong,
    /// For example one with a zero byte.
    #[error("bcrypt: {0}")]
    Unfit(String),
}

/// Hashes a password, in the form etcd writes.
pub fn hash(password: &str, cost: u32, salt: [u8; 16]) -> Result<String, Error> {
    if password.len() > LONGEST {
        return Err(Error::TooLong);
    }
    let parts = bcrypt::hash_with_salt(password, cost, salt).map_err(|error| Error::Unfit(error.to_string()))?;
    Ok(parts.format_for_version(Version::TwoA))
}

/// The password is that of the hash. What is no hash has no password.
pub fn matches(password: &str, hash: &[u8]) -> bool {
    std::str::from_utf8(hash).is_ok_and(|hash| bcrypt::verify(password, hash).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_gos_and_matches_its_password_only() {
        let hashed = hash("secret", 4, [7; 16]).unwrap();
        assert!(hashed.starts_with("$2a$04$") && hashed.len() == 60, "{hashed}");
        assert!(matches("secret", hashed.as_bytes()));
        assert!(!matches("Secret", hashed.as_bytes()) && !matches("", hashed.as_bytes()));
    }

    /// Made by golang.org/x/crypto/bcrypt, from its own tests.
    #[test]
    fn hashes_made_by_etcd_match() {
        assert!(matches("allmine", b"$2a$10$XajjQvNhvvRt5GSeFk1xFeyqRrsxkhBkUiQeg0dt.wU1qD4aFDcga"));
    }

    #[test]
    fn what_is_no_hash_matches_nothing() {
        for hash in [&b""[..], b"secret", b"$2a$04$short", b"\xff\xfe", b"$2a$99$XajjQvNhvvRt5GSeFk1xFeyqRrsxkhBkUiQeg0dt.wU1qD4aFDcga"] {
            assert!(!matches("", hash) && !matches("secret", hash));
        }
    }

    #[test]
    fn a_password_too_long_for_bcrypt_is_refused() {
        assert!(hash(&"x".repeat(72), 4, [0; 16]).is_ok());
        assert_eq!(hash(&"x".repeat(73), 4, [0; 16]), Err(Error::TooLong));
    }
}

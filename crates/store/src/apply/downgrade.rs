//! The announcement that a cluster goes back to an earlier version of etcd, and versions as far as that needs them.

use std::{fmt, str::FromStr};

use bytes::Bytes;

use super::write::Writer;
use crate::{
    command::Downgrade,
    disk::{self, Column, Error, Read, columns::meta},
    mvcc::Result,
};

/// The version all members speak.
pub const CLUSTER_VERSION: MinorVersion = MinorVersion { major: 3, minor: 6 };

/// A version without its patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinorVersion {
    major: u64,
    minor: u64,
}

impl MinorVersion {
    /// The one a cluster may go back to.
    pub fn before(self) -> Self {
        MinorVersion { minor: self.minor.saturating_sub(1), ..self }
    }
}

impl fmt::Display for MinorVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for MinorVersion {
    type Err = ();

    /// `major.minor` or `major.minor.patch`.
    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let mut parts = text.split('.').map(|part| part.parse::<u64>().map_err(|_| ()));
        let (major, minor) = (parts.next().ok_or(())??, parts.next().ok_or(())??);
        parts.next().transpose()?;
        if parts.next().is_some() { Err(()) } else { Ok(MinorVersion { major, minor }) }
    }
}

pub(super) fn set(writer: &mut Writer<'_, '_>, downgrade: &Downgrade) -> Result<()> {
    match &downgrade.target[..] {
        "" => writer.view_mut().delete(Column::Meta, meta::DOWNGRADE),
        target => writer.view_mut().put(Column::Meta, meta::DOWNGRADE, Bytes::copy_from_slice(target.as_bytes())),
    }
    Ok(())
}

/// The version announced, if one is.
pub fn target(read: &dyn Read) -> disk::Result<Option<String>> {
    let corrupt = |_| Error::Corrupt { column: Column::Meta, what: "a version is text" };
    read.get(Column::Meta, meta::DOWNGRADE)?.map(|text| String::from_utf8(text.to_vec()).map_err(corrupt)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_with_and_without_patches() {
        for text in ["3.5", "3.5.0", "3.5.21"] {
            assert_eq!(text.parse(), Ok(CLUSTER_VERSION.before()));
        }
        for text in ["", "3", "v3.5", "3.5.0.1", "3.x"] {
            assert_eq!(text.parse::<MinorVersion>(), Err(()), "{text}");
        }
    }
}

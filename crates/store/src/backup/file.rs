//! A snapshot file: a database, and behind it the SHA-256 of all its bytes.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::bolt::read::{self, Bolt};

/// Bytes of the sum.
const SUM: u64 = 32;
/// A database is a multiple of this; what is beyond is the sum. etcd tells them apart the same way.
const SECTOR: u64 = 512;

/// Why a file is none.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("open {0}")]
    Open(PathBuf, #[source] io::Error),
    /// It is damaged.
    #[error("the snapshot is damaged: expected sha256 {expected}, got {got}")]
    Sum {
        /// What stands at its end.
        expected: String,
        /// What its bytes come to.
        got: String,
    },
    /// It is a database without a sum.
    #[error("snapshot missing hash but --skip-hash-check=false")]
    NoSum,
}

/// An open snapshot file.
#[derive(Debug)]
pub struct SnapshotFile {
    file: File,
    path: PathBuf,
    size: u64,
    summed: bool,
}

impl SnapshotFile {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::Open(path.into(), error);
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let summed = size % SECTOR == SUM;
        Ok(Self { file, path: path.into(), size, summed })
    }

    /// Checks the sum.
    pub fn verify(&mut self) -> Result<(), Error> {
        if !self.summed {
            return Err(Error::NoSum);
        }
        let (got, expected) = self.sums().map_err(|error| Error::Open(self.path.clone(), error))?;
        match got == expected {
            true => Ok(()),
            false => Err(Error::Sum { expected: hex(&expected), got: hex(&got) }),
        }
    }

    /// Of the bytes, and as it stands at the end.
    fn sums(&mut self) -> io::Result<(Vec<u8>, Vec<u8>)> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut digest = Sha256::new();
        let mut data = (&self.file).take(self.size - SUM);
        let mut buffer = vec![0; 256 << 10];
        loop {
            match data.read(&mut buffer)? {
                0 => break,
                read => digest.update(&buffer[..read]),
            }
        }
        let mut expected = Vec::new();
        (&self.file).take(SUM).read_to_end(&mut expected)?;
        Ok((digest.finalize().to_vec(), expected))
    }

    /// The database in it.
    pub fn bolt(&self) -> read::Result<Bolt<'_, File>> {
        Bolt::open(&self.file, if self.summed { self.size - SUM } else { self.size })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

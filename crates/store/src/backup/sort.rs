//! Sorting more rows than memory should hold: sorted runs go to unnamed files, and are merged as they are read.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, binary_heap::PeekMut},
    fs::File,
    io::{self, BufWriter, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
};

/// Bytes of rows kept in memory.
const BUDGET: usize = 8 << 20;
/// Bytes read at once from each run.
const READ: usize = 32 << 10;
/// Before a row: lengths of key and payload.
const LENGTHS: usize = 8;

/// Collects rows: a key to sort by, and what comes with it.
pub struct Sorter {
    directory: PathBuf,
    budget: usize,
    rows: Rows,
    runs: Vec<Run>,
}

/// Rows one behind the other, and where each begins.
#[derive(Default)]
struct Rows {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

struct Run {
    file: File,
    size: u64,
}

impl Sorter {
    /// Files go to a directory, which must exist by the time they are needed.
    pub fn new(directory: PathBuf) -> Self {
        Self::with_budget(directory, BUDGET)
    }

    fn with_budget(directory: PathBuf, budget: usize) -> Self {
        Sorter { directory, budget, rows: Rows::default(), runs: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, key: &[u8], payload: &[u8]) -> io::Result<()> {
        self.rows.push(key, payload);
        if self.rows.bytes.len() + self.rows.places.len() * size_of::<usize>() >= self.budget {
            self.end_run()?;
        }
        Ok(())
    }

    fn end_run(&mut self) -> io::Result<()> {
        self.rows.sort();
        let mut out = BufWriter::new(tempfile::tempfile_in(&self.directory)?);
        for place in &self.rows.places {
            out.write_all(self.rows.row(*place))?;
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.runs.push(Run { file, size: self.rows.bytes.len() as u64 });
        self.rows = Rows::default();
        Ok(())
    }

    /// All rows, to be read in order as often as wanted.
    pub fn finish(mut self) -> Sorted {
        self.rows.sort();
        Sorted { rows: self.rows, runs: self.runs }
    }
}

impl Rows {
    fn push(&mut self, key: &[u8], payload: &[u8]) {
        self.places.push(self.bytes.len());
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
    }

    fn sort(&mut self) {
        let mut places = std::mem::take(&mut self.places);
        places.sort_unstable_by(|a, b| split(self.row(*a)).cmp(&split(self.row(*b))));
        self.places = places;
    }

    fn row(&self, place: usize) -> &[u8] {
        let (key, payload) = lengths(&self.bytes[place..]);
        &self.bytes[place..place + LENGTHS + key + payload]
    }
}

/// Lengths of a row's key and payload; the row was written by this process.
fn lengths(row: &[u8]) -> (usize, usize) {
    let number = |at: usize| row.get(at..).and_then(|row| row.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
    (number(0), number(4))
}

fn split(row: &[u8]) -> (&[u8], &[u8]) {
    row[LENGTHS..].split_at(lengths(row).0)
}

/// Sorted rows.
pub struct Sorted {
    rows: Rows,
    runs: Vec<Run>,
}

impl Sorted {
    /// Reads from the start.
    pub fn read(&self) -> io::Result<Merge<'_>> {
        let mut sources = vec![Source::Memory(&self.rows, 0)];
        sources.extend(self.runs.iter().map(|run| Source::File { run, at: 0, buffer: Vec::new(), used: 0 }));
        let mut merge = Merge { sources, heads: BinaryHeap::new() };
        for source in 0..merge.sources.len() {
            if let Some(row) = merge.sources[source].next()? {
                merge.heads.push(Reverse(Head { row, source }));
            }
        }
        Ok(merge)
    }
}

enum Source<'a> {
    Memory(&'a Rows, usize),
    File { run: &'a Run, at: u64, buffer: Vec<u8>, used: usize },
}

impl Source<'_> {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self {
            Source::Memory(rows, next) => {
                let row = rows.places.get(*next).map(|place| rows.row(*place).to_vec());
                *next += 1;
                Ok(row)
            }
            Source::File { run, at, buffer, used } => {
                if *used == buffer.len() && *at == run.size {
                    return Ok(None);
                }
                fill(run, at, buffer, used, LENGTHS)?;
                let (key, payload) = lengths(&buffer[*used..]);
                let size = LENGTHS + key + payload;
                fill(run, at, buffer, used, size)?;
                let row = buffer[*used..*used + size].to_vec();
                *used += size;
                Ok(Some(row))
            }
        }
    }
}

/// Makes sure that `wanted` bytes are in the buffer beyond those used.
fn fill(run: &Run, at: &mut u64, buffer: &mut Vec<u8>, used: &mut usize, wanted: usize) -> io::Result<()> {
    if buffer.len() - *used >= wanted {
        return Ok(());
    }
    buffer.drain(..std::mem::take(used));
    let kept = buffer.len();
    let more = (READ.max(wanted - kept) as u64).min(run.size - *at);
    buffer.resize(kept + more as usize, 0);
    run.file.read_exact_at(&mut buffer[kept..], *at)?;
    *at += more;
    if buffer.len() < wanted { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

struct Head {
    row: Vec<u8>,
    source: usize,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        split(&self.row).cmp(&split(&other.row))
    }
}

/// Rows in order.
pub struct Merge<'a> {
    sources: Vec<Source<'a>>,
    heads: BinaryHeap<Reverse<Head>>,
}

impl Merge<'_> {
    /// Calls `visit` with the next row's key and payload; none at the end.
    pub fn next<T>(&mut self, visit: impl FnOnce(&[u8], &[u8]) -> T) -> io::Result<Option<T>> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let (key, payload) = split(&head.0.row);
        let result = visit(key, payload);
        match self.sources[head.0.source].next()? {
            Some(row) => head.0.row = row,
            None => drop(PeekMut::pop(head)),
        }
        Ok(Some(result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(sorted: &Sorted) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut merge = sorted.read().unwrap();
        let mut rows = Vec::new();
        while let Some(row) = merge.next(|key, payload| (key.to_vec(), payload.to_vec())).unwrap() {
            rows.push(row);
        }
        rows
    }

    proptest! {
        #[test]
        fn rows_come_back_in_order_whether_or_not_they_fit_in_memory(
            mut rows in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..20), prop::collection::vec(any::<u8>(), 0..2000)), 0..80),
            budget in prop::sample::select(vec![1, 3000, 40_000, BUDGET]),
        ) {
            let mut sorter = Sorter::with_budget(std::env::temp_dir(), budget);
            rows.iter().for_each(|(key, payload)| sorter.push(key, payload).unwrap());
            let sorted = sorter.finish();
            rows.sort();
            prop_assert_eq!(&read(&sorted), &rows);
            prop_assert_eq!(&read(&sorted), &rows, "a second time");
        }
    }
}

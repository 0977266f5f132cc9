//! CRI's log format: `TIME STREAM TAG TEXT`, where tag `P` means that the line goes on in the next record.

use jiff::Timestamp;

/// Longest text of one record.
pub(crate) const MOST_PER_LINE: usize = 16 << 10;

/// One record of a log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) time: Timestamp,
    /// The time as it is written in the file.
    pub(crate) time_text: &'a str,
    pub(crate) stream: &'a str,
    pub(crate) partial: bool,
    pub(crate) text: &'a [u8],
}

/// Makes one record, with its newline.
pub(crate) fn line(time: Timestamp, stream: &str, text: &[u8], partial: bool) -> Vec<u8> {
    let tag = if partial { 'P' } else { 'F' };
    let mut line = format!("{time:.9} {stream} {tag} ").into_bytes();
    line.extend_from_slice(text);
    line.push(b'\n');
    line
}

/// Reads one record, without its newline; `None` if it is none.
pub(crate) fn parse(line: &[u8]) -> Option<Record<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let mut word = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let (time_text, stream, tag) = (word()?, word()?, word()?);
    let time = time_text.parse().ok()?;
    // Tags may be several, joined by colons; the first tells.
    let partial = tag.split(':').next() == Some("P");
    matches!(stream, "stdout" | "stderr").then_some(())?;
    Some(Record { time, time_text, stream, partial, text: parts.next().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let time: Timestamp = "2026-11-30T09:00:00.123456789Z".parse().unwrap();
        let written = line(time, "stderr", b"a b  c", true);
        assert_eq!(written, b"2026-11-30T09:00:00.123456789Z stderr P a b  c\n");
        let record = parse(&written[..written.len() - 1]).unwrap();
        assert_eq!((record.time, record.stream, record.partial, record.text), (time, "stderr", true, &b"a b  c"[..]));
    }

    #[test]
    fn reads_times_with_an_offset_and_empty_lines() {
        let record = parse(b"2026-11-30T10:00:00.5+01:00 stdout F ").unwrap();
        assert_eq!(record.time.as_second(), 1_796_029_200);
        assert_eq!(record.text, b"");
        assert_eq!(parse(b"nonsense"), None);
    }
}

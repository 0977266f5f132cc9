//! Reading a container's log file: the last lines, from a time on, and on and on as it grows.

use std::{
    io::{self, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    fs::File,
    io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, BufReader},
    sync::mpsc,
};

use super::{format, options::Options};

/// How often a followed file is looked at.
const POLL: Duration = Duration::from_millis(200);
/// Block size of the search for the last lines.
const BLOCK: u64 = 64 << 10;

/// Sends the wanted part of the log to `sink`, in upstream's output form; ends when the receiver is gone. `running` tells
/// whether a followed container may still write.
pub(crate) async fn stream<F, Fut>(path: PathBuf, options: Options, sink: mpsc::Sender<io::Result<Bytes>>, running: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = bool>,
{
    let mut reader = Reader { path, left: options.limit, options, sink };
    if let Err(error) = reader.run(running).await {
        // Whoever reads has seen a part already; all that is left is to break off.
        let _ = reader.sink.send(Err(error)).await;
    }
}

struct Reader {
    path: PathBuf,
    options: Options,
    /// Bytes that may still be sent.
    left: Option<u64>,
    sink: mpsc::Sender<io::Result<Bytes>>,
}

impl Reader {
    async fn run<F, Fut>(&mut self, running: F) -> io::Result<()>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = bool>,
    {
        let mut file = self.open().await?;
        let mut line = vec![];
        let mut last_round = false;
        loop {
            // A line without its end is kept until the rest is there.
            if file.read_until(b'\n', &mut line).await? > 0 && line.ends_with(b"\n") {
                if !self.send(&line[..line.len() - 1]).await {
                    return Ok(());
                }
                line.clear();
                continue;
            }
            if !self.options.follow || last_round || self.sink.is_closed() {
                return Ok(());
            }
            if let Some(next) = self.rotated(&file).await {
                file = next;
                line.clear();
                continue;
            }
            last_round = !running().await;
            if !last_round {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    async fn open(&self) -> io::Result<BufReader<File>> {
        let mut file = File::open(&self.path).await?;
        if let Some(lines) = self.options.tail {
            let start = tail_start(&mut file, lines).await?;
            file.seek(SeekFrom::Start(start)).await?;
        }
        Ok(BufReader::with_capacity(64 << 10, file))
    }

    /// The new file, once rotation has moved away the one being read.
    async fn rotated(&self, current: &BufReader<File>) -> Option<BufReader<File>> {
        let (old, new) = (current.get_ref().metadata().await.ok()?, tokio::fs::metadata(&self.path).await.ok()?);
        if old.ino() == new.ino() {
            return None;
        }
        File::open(&self.path).await.ok().map(BufReader::new)
    }

    /// Sends one record; false when nothing more is wanted.
    async fn send(&mut self, line: &[u8]) -> bool {
        let Some(record) = format::parse(line) else { return true };
        if self.options.since.is_some_and(|since| record.time < since) {
            return true;
        }
        let mut output = Vec::with_capacity(record.text.len() + 36);
        if self.options.timestamps {
            output.extend_from_slice(record.time_text.as_bytes());
            output.push(b' ');
        }
        output.extend_from_slice(record.text);
        if !record.partial {
            output.push(b'\n');
        }
        if let Some(left) = &mut self.left {
            output.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= output.len() as u64;
        }
        let sent = self.sink.send(Ok(output.into())).await.is_ok();
        sent && self.left != Some(0)
    }
}

/// Where the last `lines` lines of the file begin.
async fn tail_start(file: &mut File, lines: u64) -> io::Result<u64> {
    let size = file.metadata().await?.len();
    let mut end = size;
    let mut found = 0;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.seek(SeekFrom::Start(start)).await?;
        file.read_exact(&mut block).await?;
        for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let after = start + index as u64 + 1;
            // The newline at the very end closes the last line, it begins none.
            if after == size && lines > 0 {
                continue;
            }
            found += 1;
            if found >= lines {
                return Ok(after);
            }
        }
        end = start;
    }
    Ok(if lines == 0 { size } else { 0 })
}

/// Reads the last bytes of a log as plain text: what a container says when it has left no termination message.
pub(crate) async fn last_words(path: &Path, lines: u64, most: usize) -> String {
    let (sink, mut source) = mpsc::channel(16);
    let options = Options { tail: Some(lines), ..Default::default() };
    let reading = stream(path.to_owned(), options, sink, || async { false });
    let collecting = async {
        let mut text = vec![];
        while let Some(Ok(chunk)) = source.recv().await {
            text.extend_from_slice(&chunk);
        }
        text
    };
    let ((), text) = tokio::join!(reading, collecting);
    String::from_utf8_lossy(&text[text.len().saturating_sub(most)..]).into_owned()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn record(second: i64, text: &str, partial: bool) -> Vec<u8> {
        format::line(Timestamp::from_second(second).unwrap(), "stdout", text.as_bytes(), partial)
    }

    async fn read(path: &Path, options: Options) -> String {
        let (sink, mut source) = mpsc::channel(16);
        let reading = tokio::spawn(stream(path.to_owned(), options, sink, || async { false }));
        let mut text = vec![];
        while let Some(chunk) = source.recv().await {
            text.extend_from_slice(&chunk.unwrap());
        }
        reading.await.unwrap();
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn gives_the_wanted_part() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let lines = [record(1, "one", false), record(2, "tw", true), record(2, "o", false), record(3, "three", false)];
        std::fs::write(&path, lines.concat()).unwrap();
        let tail = |tail| Options { tail: Some(tail), ..Default::default() };
        assert_eq!(read(&path, Options::default()).await, "one\ntwo\nthree\n");
        assert_eq!(read(&path, tail(1)).await, "three\n");
        assert_eq!(read(&path, tail(0)).await, "");
        assert_eq!(read(&path, tail(9)).await, "one\ntwo\nthree\n");
        let since = Options { since: Timestamp::from_second(3).ok(), timestamps: true, ..Default::default() };
        assert_eq!(read(&path, since).await, "1970-01-01T00:00:03.000000000Z three\n");
        let limited = Options { limit: Some(6), ..Default::default() };
        assert_eq!(read(&path, limited).await, "one\ntw");
    }

    #[tokio::test]
    async fn follows_across_rotation() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        std::fs::write(&path, record(1, "one", false)).unwrap();
        let (sink, mut source) = mpsc::channel(16);
        let options = Options { follow: true, ..Default::default() };
        let reading = tokio::spawn(stream(path.clone(), options, sink, || async { true }));
        assert_eq!(source.recv().await.unwrap().unwrap(), "one\n");
        tokio::fs::rename(&path, directory.path().join("0.log.1")).await.unwrap();
        let mut file = File::create(&path).await.unwrap();
        file.write_all(&record(2, "two", false)).await.unwrap();
        file.flush().await.unwrap();
        assert_eq!(source.recv().await.unwrap().unwrap(), "two\n");
        drop(source);
        reading.await.unwrap();
    }
}

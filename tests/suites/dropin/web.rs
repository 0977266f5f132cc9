//! HTTP as a script without a library speaks it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for bytes.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Sends a request and keeps the connection. In HTTP 1.0, so that the body of the answer is just what follows the head.
fn send(port: u16, method: &str, path: &str, headers: &str, body: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    // In one piece: who is refused by the first line must not write on into a closed connection.
    let request = format!("{method} {path} HTTP/1.0\r\nHost: localhost:{port}\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
    stream.write_all(request.as_bytes())?;
    Ok(stream)
}

/// Sends a request and reads the whole answer.
pub(crate) fn ask(port: u16, method: &str, path: &str, headers: &str, body: &str) -> std::io::Result<Answer> {
    let mut text = String::new();
    send(port, method, path, headers, body)?.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| std::io::Error::other(format!("no answer: {text:?}")))?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    Ok(Answer { code, head: head.to_lowercase(), body: body.to_owned() })
}

/// GET.
pub(crate) fn get(port: u16, path: &str) -> std::io::Result<Answer> {
    ask(port, "GET", path, "", "")
}

/// POST.
pub(crate) fn post(port: u16, path: &str, body: &str) -> Answer {
    ask(port, "POST", path, "", body).unwrap()
}

/// Lines of an answer that goes on, without its head.
pub(crate) fn lines(port: u16, path: &str, body: &str) -> impl Iterator<Item = String> {
    let stream = send(port, "POST", path, "", body).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let head: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(head[0].contains(" 200 "), "{head:?}");
    lines
}

//! Plain HTTP to the API server through `kubectl proxy`, to see answers as they are.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tests::{Background, Cluster, within};

/// A running `kubectl proxy`.
pub(crate) struct Wire {
    address: String,
    _proxy: Background,
}

impl Wire {
    /// Starts it as the cluster's admin.
    pub(crate) fn open(cluster: &Cluster) -> Self {
        let log = cluster.directory().join("proxy.log");
        let proxy = Background::run(&mut cluster.kubectl_command(&["proxy", "--port=0"]), &log);
        let address = within(Duration::from_secs(30), "kubectl proxy listens", || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            said.trim().strip_prefix("Starting to serve on ").map(str::to_owned).ok_or(said)
        });
        Self { address, _proxy: proxy }
    }

    fn send(&self, path: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").unwrap();
        stream
    }

    /// The status line's code and all that follows the answer's headers.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.get_as(path, "application/json")
    }

    /// The same of an answer of that type.
    pub(crate) fn get_as(&self, path: &str, accept: &str) -> (u16, String) {
        let mut text = String::new();
        self.send(path, &format!("Accept: {accept}\r\nConnection: close\r\n")).read_to_string(&mut text).unwrap();
        let code = text.split_whitespace().nth(1).unwrap_or_default().parse().unwrap_or_default();
        (code, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    /// Switches protocols, says something, and returns the answer's headers and what was said back.
    pub(crate) fn talk(&self, path: &str, protocol: &str, words: &str) -> (String, String) {
        let mut stream = self.send(path, &format!("Connection: Upgrade\r\nUpgrade: {protocol}\r\n"));
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&head));
            head.push(byte[0]);
        }
        stream.write_all(words.as_bytes()).unwrap();
        let mut said = vec![0; words.len()];
        stream.read_exact(&mut said).unwrap();
        (String::from_utf8(head).unwrap(), String::from_utf8(said).unwrap())
    }
}

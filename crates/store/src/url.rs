//! `scheme://host:port`, the only kind of URL etcd's flags take (Unix sockets aside).

use std::{fmt, str::FromStr};

/// An address with its scheme.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Url {
    /// `https` rather than `http`.
    pub tls: bool,
    /// A name or an address; IPv6 without its brackets.
    pub host: String,
    /// 0: any free port.
    pub port: u16,
}

/// Why a text is no such URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("URL scheme must be http or https: {0}")]
    Scheme(String),
    #[error("URL address does not have the form \"host:port\": {0}")]
    HostPort(String),
    #[error("URL must not contain a path: {0}")]
    Path(String),
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text.trim().split_once("://").ok_or_else(|| Error::Scheme(text.into()))?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(Error::Scheme(text.into())),
        };
        let address = rest.strip_suffix('/').unwrap_or(rest);
        if address.contains('/') {
            return Err(Error::Path(text.into()));
        }
        let bad = || Error::HostPort(text.into());
        let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(bad());
        }
        Ok(Self { tls, host: host.into(), port: port.parse().map_err(|_| bad())? })
    }
}

impl Url {
    /// The same address with the port a listener was given.
    pub(crate) fn with_port(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_read_as_they_are_written() {
        for text in ["http://localhost:2379", "https://10.0.0.1:0", "http://[::1]:2380"] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        assert!(matches!("unix://x:1".parse::<Url>(), Err(Error::Scheme(_))));
        assert!(matches!("http://x".parse::<Url>(), Err(Error::HostPort(_))));
        assert!(matches!("http://x:1/path".parse::<Url>(), Err(Error::Path(_))));
        assert!(matches!("http://:2379".parse::<Url>(), Err(Error::HostPort(_))));
    }
}

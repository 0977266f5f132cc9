//! What the query of a stream asks for: upstream's names, and its complaints.

use axum::http::HeaderMap;
use streaming::websocket::is_websocket;

/// Parameters of a query in their order.
pub(super) type Pairs = Vec<(String, String)>;

/// Which of a command's streams are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

impl Wanted {
    /// Reads `input`, `output`, `error` and `tty`.
    pub(super) fn read(query: &[(String, String)]) -> Result<Self, String> {
        let given = |name: &str| first(query, name) == Some("1");
        let tty = given("tty");
        // A terminal has one output; kubectl leaves stderr out, other clients may not.
        let wanted = Self { stdin: given("input"), stdout: given("output"), stderr: given("error") && !tty, tty };
        if wanted.stdin || wanted.stdout || wanted.stderr {
            Ok(wanted)
        } else {
            Err("you must specify at least 1 of stdin, stdout, stderr".to_owned())
        }
    }
}

/// The words of the command.
pub(super) fn command(query: &[(String, String)]) -> Vec<String> {
    query.iter().filter(|(name, _)| name == "command").map(|(_, word)| word.clone()).collect()
}

/// The command of `/run`, which upstream splits at blanks.
pub(super) fn run_command(query: &[(String, String)]) -> Vec<String> {
    first(query, "cmd").unwrap_or_default().split(' ').map(str::to_owned).collect()
}

/// The ports to forward. Over WebSocket each has its channels and must be known from the start; SPDY opens streams as it goes.
pub(super) fn ports(headers: &HeaderMap, query: &[(String, String)]) -> Result<Vec<i32>, String> {
    if !is_websocket(headers) {
        return Ok(vec![]);
    }
    let given: Vec<&str> = query.iter().filter(|(name, _)| name == "port").map(|(_, value)| value.as_str()).collect();
    match given[..] {
        [] => Err("query parameter \"port\" is required".to_owned()),
        _ if given.contains(&"") => Err("query parameter \"port\" cannot be empty".to_owned()),
        _ => given.into_iter().flat_map(|value| value.split(',').map(move |port| parse_port(value, port))).collect(),
    }
}

fn parse_port(value: &str, port: &str) -> Result<i32, String> {
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if is_number { port.parse::<u16>().map_err(|_| "value out of range") } else { Err("invalid syntax") };
    match parsed {
        Ok(0) => Err(format!("port {value:?} must be > 0")),
        Ok(port) => Ok(i32::from(port)),
        Err(why) => Err(format!("unable to parse {value:?} as a port: strconv.ParseUint: parsing {port:?}: {why}")),
    }
}

fn first<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    fn pairs(given: &[(&str, &str)]) -> Pairs {
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn websocket() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, "keep-alive, Upgrade".parse().unwrap());
        headers.insert(header::UPGRADE, "WebSocket".parse().unwrap());
        headers
    }

    #[test]
    fn a_terminal_has_no_stderr() {
        let wanted = Wanted::read(&pairs(&[("input", "1"), ("output", "1"), ("error", "1"), ("tty", "1")])).unwrap();
        assert_eq!(wanted, Wanted { stdin: true, stdout: true, stderr: false, tty: true });
    }

    #[test]
    fn some_stream_must_be_wanted() {
        for query in [&[][..], &[("input", "true")], &[("tty", "1"), ("error", "1")]] {
            assert_eq!(Wanted::read(&pairs(query)).unwrap_err(), "you must specify at least 1 of stdin, stdout, stderr");
        }
    }

    #[test]
    fn a_command_keeps_its_words() {
        let query = pairs(&[("command", "sh"), ("output", "1"), ("command", "a b"), ("cmd", "ls /")]);
        assert_eq!(command(&query), ["sh", "a b"]);
        assert_eq!(run_command(&query), ["ls", "/"]);
    }

    #[test]
    fn ports_are_named_over_websocket_only() {
        let query = pairs(&[("port", "80,443"), ("port", "8080")]);
        assert_eq!(ports(&websocket(), &query).unwrap(), [80, 443, 8080]);
        assert!(ports(&HeaderMap::new(), &query).unwrap().is_empty());
    }

    #[test]
    fn a_wrong_port_is_named_as_upstream_does() {
        let complaint = |given: &[(&str, &str)]| ports(&websocket(), &pairs(given)).unwrap_err();
        assert_eq!(complaint(&[]), "query parameter \"port\" is required");
        assert_eq!(complaint(&[("port", "")]), "query parameter \"port\" cannot be empty");
        assert_eq!(complaint(&[("port", "0")]), "port \"0\" must be > 0");
        assert_eq!(
            complaint(&[("port", "65536")]),
            "unable to parse \"65536\" as a port: strconv.ParseUint: parsing \"65536\": value out of range"
        );
        assert_eq!(complaint(&[("port", "+1")]), "unable to parse \"+1\" as a port: strconv.ParseUint: parsing \"+1\": invalid syntax");
    }
}

//! Continue tokens, in upstream's format: base64url of `{"v":"meta.k8s.io/v1","rv":REVISION,"start":"KEY\u0000"}`.

use apimachinery::raw::{self, Node};
use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use serde::Serialize;

use super::{Error, Result};

const VERSION: &str = "meta.k8s.io/v1";

/// Where the next page begins. `revision` -1 means "as of now": the list goes on, no longer consistent with its first page.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Continue {
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "rv")]
    pub(crate) revision: i64,
    start: String,
}

impl Continue {
    /// The page after `key`, which lies below the list's own prefix.
    pub(crate) fn after(key: &str, revision: i64) -> Self {
        Self { version: VERSION.to_owned(), revision, start: format!("{key}\0") }
    }

    pub(crate) fn encode(&self) -> String {
        // A struct of two strings and a number always serializes.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Errors: `BadContinue`, in upstream's words.
    pub(crate) fn decode(token: &str) -> Result<Self> {
        let bytes = base64(token).map_err(|at| Error::BadContinue(format!("illegal base64 data at input byte {at}")))?;
        let read = read(&bytes).map_err(Error::BadContinue)?;
        let refuse = |why: String| Err(Error::BadContinue(why));
        if read.version != VERSION {
            return refuse(format!("server does not recognize this encoded version {}", read.version));
        }
        if read.revision == 0 {
            return refuse("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned());
        }
        if read.start.is_empty() {
            return refuse("encoded start key empty (version meta.k8s.io/v1)".to_owned());
        }
        // Nobody climbs out of the list's own keys.
        let below = read.start.strip_prefix('/').unwrap_or(&read.start);
        if below.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return refuse(read.start);
        }
        Ok(Self { start: below.to_owned(), ..read })
    }

    /// The first key of the page, below `prefix`.
    pub(crate) fn start_key(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.start)
    }

    /// The same place, as of now.
    pub(crate) fn inconsistent(&self) -> Self {
        Self { version: self.version.clone(), revision: -1, start: self.start.clone() }
    }
}

/// What a token says, as far as Go reads it; else why not, in Go's words.
fn read(bytes: &[u8]) -> std::result::Result<Continue, String> {
    let node = raw::parse_json(bytes).map_err(|error| error.to_string())?;
    let members = match node {
        Node::Null => return Ok(Continue::default()),
        Node::Object(members) => members,
        other => return Err(format!("json: cannot unmarshal {} into Go value of type storage.continueToken", other.type_name())),
    };
    let mut token = Continue::default();
    for (name, value) in members {
        let wrong =
            |what: &str, go: &str| Err(format!("json: cannot unmarshal {what} into Go struct field continueToken.{name} of type {go}"));
        match (&*name, value) {
            (_, Node::Null) => {}
            ("v", Node::String(text)) => token.version = text.into_owned(),
            ("start", Node::String(text)) => token.start = text.into_owned(),
            ("rv", Node::Number(digits)) => match digits.parse() {
                Ok(number) => token.revision = number,
                Err(_) => return wrong(&format!("number {digits}"), "int64"),
            },
            ("rv", other) => return wrong(other.type_name(), "int64"),
            ("v" | "start", other) => return wrong(other.type_name(), "string"),
            _ => {}
        }
    }
    Ok(token)
}

/// Decodes as Go does; else the first byte that is wrong.
fn base64(text: &str) -> std::result::Result<Vec<u8>, usize> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match text.bytes().position(|byte| !known(byte)) {
        Some(at) => Err(at),
        None if text.len() % 4 == 1 => Err(text.len() - 1),
        None => LENIENT.decode(text).map_err(|_| text.len()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_comes_back_as_it_went() {
        let token = Continue::after("ns/pod-1", 42).encode();
        let decoded = Continue::decode(&token).unwrap();
        assert_eq!((decoded.revision, decoded.start_key("/registry/pods/")), (42, "/registry/pods/ns/pod-1\0".to_owned()));
    }

    #[test]
    fn refuses_tokens_nobody_issued() {
        let forged = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for token in [
            "%%%".to_owned(),
            forged("{}"),
            forged(r#"{"v":"v2","rv":1,"start":"a"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../secrets/a"}"#),
        ] {
            assert!(matches!(Continue::decode(&token), Err(Error::BadContinue(_))), "{token}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_token_as_upstream_does() {
        let forged = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for (token, why) in [
            ("abc%".to_owned(), "illegal base64 data at input byte 3"),
            ("abcde".to_owned(), "illegal base64 data at input byte 4"),
            (forged("{"), "unexpected end of JSON input"),
            (forged("[]"), "json: cannot unmarshal array into Go value of type storage.continueToken"),
            (forged(r#"{"rv":"1"}"#), "json: cannot unmarshal string into Go struct field continueToken.rv of type int64"),
            (forged(r#"{"v":"v2"}"#), "server does not recognize this encoded version v2"),
            (forged(r#"{"v":"meta.k8s.io/v1","rv":0}"#), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
            (forged(r#"{"v":"meta.k8s.io/v1","rv":1}"#), "encoded start key empty (version meta.k8s.io/v1)"),
            (forged(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a/./b"}"#), "a/./b"),
        ] {
            assert_eq!(Continue::decode(&token).unwrap_err().to_string(), format!("continue key is not valid: {why}"));
        }
    }

    proptest! {
        #[test]
        fn any_key_comes_back_from_its_token(key in "[a-z0-9.-]{1,8}(/[a-z0-9.-]{1,8})?", revision in prop_oneof![Just(-1i64), 1..i64::MAX]) {
            prop_assume!(!key.split('/').any(|part| matches!(part, "." | "..")));
            let token = Continue::after(&key, revision);
            prop_assert_eq!(Continue::decode(&token.encode()).unwrap(), token);
        }

        #[test]
        fn any_text_is_a_token_or_refused(text in "\\PC{0,24}", json in "\\{(\"v\":\"meta.k8s.io/v1\",|\"rv\":-?[0-9]{1,20},|\"start\":\"[a./%]{0,6}\",?){0,4}\\}?") {
            let _ = Continue::decode(&text);
            if let Ok(token) = Continue::decode(&URL_SAFE_NO_PAD.encode(json)) {
                prop_assert!(!token.start_key("/p/").contains("/../"));
            }
        }
    }
}

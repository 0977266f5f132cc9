//! Continue tokens, in upstream's format: base64url of `{"v":"meta.k8s.io/v1","rv":REVISION,"start":"KEY\u0000"}`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::{Error, Result};

const VERSION: &str = "meta.k8s.io/v1";

/// Where the next page begins. `revision` -1 means "as of now": the list goes on, no longer consistent with its first page.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Continue {
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "rv", default)]
    pub(crate) revision: i64,
    #[serde(rename = "start", default)]
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

    /// Errors: `BadContinue`.
    pub(crate) fn decode(token: &str) -> Result<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|error| Error::BadContinue(error.to_string()))?;
        let decoded: Self = serde_json::from_slice(&bytes).map_err(|error| Error::BadContinue(error.to_string()))?;
        if decoded.version != VERSION {
            return Err(Error::BadContinue(format!("server does not recognize this encoded version {:?}", decoded.version)));
        }
        if decoded.start.is_empty() {
            return Err(Error::BadContinue("encoded start key empty (version meta.k8s.io/v1)".to_owned()));
        }
        if decoded.revision == 0 {
            return Err(Error::BadContinue("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned()));
        }
        if decoded.start.split('/').any(|part| part.is_empty() || part == "..") {
            return Err(Error::BadContinue(format!("{:?}", decoded.start)));
        }
        Ok(decoded)
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

#[cfg(test)]
mod tests {
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
}

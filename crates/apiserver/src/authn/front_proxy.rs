//! Requests through an authenticating proxy: it proves itself by certificate and names the user in headers.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use component::serve::Peer;
use http::HeaderMap;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::client_ca::ClientCa;
use super::x509::common_name;
use super::{Authenticator, Error};
use crate::request::UserInfo;

/// Which proxies to believe, and in which headers (`--requestheader-*`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers {
    /// `--requestheader-allowed-names`; empty = any certificate of the authority.
    pub(crate) allowed_names: Vec<String>,
    /// `--requestheader-username-headers`.
    pub(crate) username: Vec<String>,
    /// `--requestheader-uid-headers`.
    pub(crate) uid: Vec<String>,
    /// `--requestheader-group-headers`.
    pub(crate) group: Vec<String>,
    /// `--requestheader-extra-headers-prefix`.
    pub(crate) extra_prefix: Vec<String>,
}

/// The headers in which anybody's word about who asks may stand. Upstream: `WithAuthentication` clears the usual and its own ones.
pub(crate) struct Claims {
    names: Vec<String>,
    prefixes: Vec<String>,
}

impl Default for Claims {
    fn default() -> Self {
        Self::new(&Headers::default())
    }
}

impl Claims {
    /// The usual headers, and those of this server's own front proxies.
    pub(crate) fn new(own: &Headers) -> Self {
        let names = own.username.iter().chain(&own.uid).chain(&own.group).map(|name| name.to_ascii_lowercase());
        let prefixes = own.extra_prefix.iter().filter(|prefix| !prefix.is_empty()).map(|prefix| prefix.to_ascii_lowercase());
        Self {
            names: names.chain(["x-remote-user", "x-remote-uid", "x-remote-group"].map(str::to_owned)).collect(),
            prefixes: prefixes.chain(["x-remote-extra-".to_owned()]).collect(),
        }
    }

    /// Takes them out: whoever a request is handed on to believes them of this server.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) {
        let claims =
            |name: &str| self.names.iter().any(|known| known == name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix));
        let gone: Vec<_> = headers.keys().filter(|name| claims(name.as_str())).cloned().collect();
        gone.iter().for_each(|name| drop(headers.remove(name)));
    }
}

/// Believes proxies whose certificate is signed by `--requestheader-client-ca-file`.
pub(crate) struct FrontProxy {
    ca: Arc<ClientCa>,
    headers: Headers,
}

impl FrontProxy {
    /// Believes proxies of these authorities.
    pub(crate) fn new(ca: Arc<ClientCa>, headers: Headers) -> Self {
        Self { ca, headers }
    }
}

#[async_trait]
impl Authenticator for FrontProxy {
    async fn authenticate(&self, request: &Parts) -> Result<Option<UserInfo>, Error> {
        let Some(user) = user(&request.headers, &self.headers) else { return Ok(None) };
        let Some(peer) = request.extensions.get::<Peer>().filter(|peer| !peer.certs.is_empty()) else { return Ok(None) };
        // Not a proxy's certificate: the headers are nobody's word, another authenticator may know the sender.
        if self.ca.verify(peer, component::clock::now()).is_err() {
            return Ok(None);
        }
        let name = common_name(&peer.certs[0]).unwrap_or_default();
        if self.headers.allowed_names.is_empty() || self.headers.allowed_names.contains(&name) {
            return Ok(Some(user));
        }
        Err(format!("x509: subject with cn={name} is not in the allowed list").into())
    }
}

/// The user the headers name.
fn user(headers: &HeaderMap, names: &Headers) -> Option<UserInfo> {
    let first = |wanted: &[String]| {
        wanted.iter().find_map(|name| headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())).map(str::to_owned)
    };
    let name = first(&names.username)?;
    let values =
        |name: &String| headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect::<Vec<_>>();
    let groups = names.group.iter().flat_map(values).collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        let key = names.extra_prefix.iter().find_map(|prefix| header.as_str().strip_prefix(&prefix.to_ascii_lowercase()));
        if let (Some(key), Ok(value)) = (key, value.to_str()) {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            extra.entry(key).or_default().push(value.to_owned());
        }
    }
    Some(UserInfo { name, uid: first(&names.uid).unwrap_or_default(), groups, extra })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_user_groups_and_extra() {
        let names = Headers {
            username: vec!["X-Remote-User".into()],
            group: vec!["X-Remote-Group".into()],
            extra_prefix: vec!["X-Remote-Extra-".into()],
            ..Headers::default()
        };
        let mut headers = HeaderMap::new();
        assert_eq!(user(&headers, &names), None);
        headers.insert("x-remote-user", "alice".parse().unwrap());
        headers.append("x-remote-group", "a".parse().unwrap());
        headers.append("x-remote-group", "b".parse().unwrap());
        headers.insert("x-remote-extra-acme.com%2fproject", "p".parse().unwrap());
        let user = user(&headers, &names).unwrap();
        assert_eq!((user.name.as_str(), user.groups), ("alice", vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(user.extra, BTreeMap::from([("acme.com/project".to_owned(), vec!["p".to_owned()])]));
    }

    #[test]
    fn nobodys_word_about_who_asks_is_handed_on_under_the_usual_names_or_our_own() {
        let own = Headers {
            username: vec!["X-Acme-User".into()],
            uid: vec!["X-Acme-Uid".into()],
            group: vec!["X-Acme-Group".into()],
            extra_prefix: vec!["X-Acme-Extra-".into(), String::new()],
            ..Headers::default()
        };
        let usual = ["x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-scope"];
        let ours = ["x-acme-user", "x-acme-uid", "x-acme-group", "x-acme-extra-scope"];
        let sent = || usual.iter().chain(&ours).chain(&["accept"]).map(|name| (name.parse().unwrap(), "admin".parse().unwrap()));
        let left = |claims: Claims| {
            let mut headers: HeaderMap = sent().collect();
            claims.strip(&mut headers);
            headers.keys().map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(left(Claims::new(&own)), ["accept"]);
        assert_eq!(left(Claims::default()).len(), ours.len() + 1);
    }
}

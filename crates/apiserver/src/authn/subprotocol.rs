//! The token of a browser's WebSocket: it can send no `Authorization`, so the token is a subprotocol beside that of its messages.
//! Upstream: `pkg/authentication/request/websocket`.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, header::SEC_WEBSOCKET_PROTOCOL};
use streaming::websocket::{is_websocket, offered};

use super::Error;

const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The token, if there is one. Errors: more than one, or none that can be read, or no other subprotocol to confirm.
pub(crate) fn token(headers: &HeaderMap) -> Result<Option<String>, Error> {
    if !is_websocket(headers) {
        return Ok(None);
    }
    let (tokens, others): (Vec<_>, Vec<_>) = offered(headers).into_iter().partition(|name| name.starts_with(PREFIX));
    let bad = |text: &str| Err(Error::Bad(text.to_owned()));
    let encoded = match tokens[..] {
        [] => return Ok(None),
        [only] => &only[PREFIX.len()..],
        _ => return bad("multiple base64.bearer.authorization tokens specified"),
    };
    if others.is_empty() {
        return bad("missing additional subprotocol");
    }
    match URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(token) if !token.is_empty() => Ok(Some(token)),
        _ => bad("invalid base64.bearer.authorization token encoding"),
    }
}

/// Takes tokens out: nobody below may see them, nor confirm them.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let offered = offered(headers);
    if !offered.iter().any(|name| name.starts_with(PREFIX)) {
        return;
    }
    let rest: Vec<_> = offered.into_iter().filter(|name| !name.starts_with(PREFIX)).collect();
    match HeaderValue::from_str(&rest.join(",")) {
        Ok(rest) if !rest.is_empty() => drop(headers.insert(SEC_WEBSOCKET_PROTOCOL, rest)),
        _ => drop(headers.remove(SEC_WEBSOCKET_PROTOCOL)),
    }
}

#[cfg(test)]
mod tests {
    use http::header::{CONNECTION, UPGRADE};

    use super::*;

    fn headers(protocols: &str) -> HeaderMap {
        let pairs = [(CONNECTION, "Upgrade"), (UPGRADE, "websocket"), (SEC_WEBSOCKET_PROTOCOL, protocols)];
        pairs.into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect()
    }

    #[test]
    fn the_token_is_taken_from_among_the_subprotocols() {
        let mut sent = headers("base64url.bearer.authorization.k8s.io.YWJj, v5.channel.k8s.io");
        assert_eq!(token(&sent), Ok(Some("abc".to_owned())));
        strip(&mut sent);
        assert_eq!((sent[SEC_WEBSOCKET_PROTOCOL].to_str().unwrap(), token(&sent)), ("v5.channel.k8s.io", Ok(None)));
    }

    #[test]
    fn tokens_that_are_none_are_refused() {
        let one = "base64url.bearer.authorization.k8s.io.YWJj";
        for bad in [one.to_owned(), format!("{one},{one},x"), "base64url.bearer.authorization.k8s.io.@,x".to_owned()] {
            assert!(matches!(token(&headers(&bad)), Err(Error::Bad(_))), "{bad}");
        }
        let mut plain = headers(one);
        plain.remove(UPGRADE);
        assert_eq!(token(&plain), Ok(None));
    }
}

//! Who asks, found out from what a request brings along.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use component::serve::Peer;
use http::HeaderMap;
use tonic::{Extensions, Request};

use super::Context;
use crate::{
    auth::{Access, Caller, Policy, commands, options::TokenKind, tokens::Tokens},
    command::{Command, Response, Txn},
    disk::Read,
    mvcc::{self, KeyRange},
    refusal::Refusal,
};
use bytes::Bytes;

/// Headers a token comes in: that of etcd's clients, and that of HTTP.
const TOKEN: [&str; 2] = ["token", "authorization"];

/// A header of requests that came as HTTP: their certificate, if any, is the gateway's.
pub(super) const GATEWAY: &str = "grpcgateway-accept";

/// What a request says of whoever sent it; proved anew each time it counts, as a token may have ended meanwhile.
#[derive(Clone, Default)]
pub(super) struct Credentials {
    token: Option<String>,
    peer: Option<Peer>,
}

impl Credentials {
    /// Of a call.
    pub(super) fn of<T>(request: &Request<T>) -> Self {
        Self::new(request.metadata().as_ref(), request.extensions())
    }

    /// Of a request's parts.
    pub(super) fn new(headers: &HeaderMap, extensions: &Extensions) -> Self {
        let token = TOKEN.iter().find_map(|name| headers.get(*name));
        let token = token.map(|token| String::from_utf8_lossy(token.as_bytes()).into_owned());
        let peer = extensions.get::<Peer>().filter(|peer| token.is_none() && !peer.certs.is_empty() && !headers.contains_key(GATEWAY));
        Credentials { peer: peer.cloned(), token }
    }

    fn certified(&self) -> Option<String> {
        common_name(self.peer.as_ref()?)
    }
}

/// The name in the certificate of who asks.
pub(super) fn common_name(peer: &Peer) -> Option<String> {
    component::tls::screen::common_name(peer.certs.first()?)
}

/// Who asks, and what they may do, as of the moment that was looked at.
#[derive(Clone)]
pub(super) struct Asked {
    policy: Arc<Policy>,
    caller: Caller,
}

impl Asked {
    /// Requests are checked.
    pub(super) fn enabled(&self) -> bool {
        self.policy.enabled()
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Somebody proved who they are.
    pub(super) fn named(&self) -> Result<(), Refusal> {
        self.policy.named(&self.caller)
    }

    /// They may do everything.
    pub(super) fn root(&self) -> Result<(), Refusal> {
        self.policy.root(&self.caller)
    }

    /// They may read these keys.
    pub(super) fn reads(&self, key: &Bytes, range_end: &Bytes) -> Result<(), Refusal> {
        if self.enabled() { self.reads_range(&KeyRange::new(key, range_end)) } else { Ok(()) }
    }

    /// They may read all keys of a range.
    pub(super) fn reads_range(&self, range: &KeyRange) -> Result<(), Refusal> {
        self.policy.may(&self.caller, Access::Read, range)
    }

    /// They may have a transaction carried out that only reads.
    pub(super) fn reads_in(&self, read: &dyn Read, txn: &Txn) -> mvcc::Result<()> {
        commands::permit_reading(&self.policy, read, &self.caller, txn)
    }

    /// They may do this with all keys of a lease.
    pub(super) fn may_with_lease(&self, read: &dyn Read, id: i64, access: Access) -> mvcc::Result<()> {
        commands::permit_lease(&self.policy, read, &self.caller, id, access)
    }
}

impl Context {
    /// Finds out who asks. Nobody has to prove anything while requests are not checked.
    pub(super) async fn asked(&self, who: &Credentials) -> Result<Asked, Refusal> {
        let policy = self.node.state().policy();
        let caller = match &who.token {
            _ if !policy.enabled() => Caller::default(),
            Some(token) => self.holder(token, &policy).await?,
            None => {
                let name = who.certified().filter(|_| self.auth.certificates);
                name.map_or_else(Caller::default, |user| Caller { user, revision: policy.revision() })
            }
        };
        Ok(Asked { policy, caller })
    }

    async fn holder(&self, token: &str, policy: &Policy) -> Result<Caller, Refusal> {
        if let TokenKind::Signed(jwt) = &self.auth.tokens {
            return jwt.verify(token, since_1970()).ok_or(Refusal::InvalidAuthToken);
        }
        let known = || self.node.state().with_tokens(|tokens, now| tokens.user(token, now));
        let user = match known() {
            None if Tokens::is_one(token) => {
                // Another member may have given it out just now.
                self.node.read_barrier().await?;
                known()
            }
            user => user,
        };
        let user = user.ok_or(Refusal::InvalidAuthToken)?;
        Ok(Caller { user, revision: policy.revision() })
    }

    /// What was read after [`Context::asked`] may be handed out: rights are still what they were.
    pub(super) fn unchanged(&self, asked: &Asked) -> Result<(), Refusal> {
        let now = self.node.state().policy();
        if now.enabled() && !Arc::ptr_eq(&now, &asked.policy) { Err(Refusal::AuthOldRevision) } else { Ok(()) }
    }

    /// Proposes a command in the name of whoever asks for it; the revision it was applied at and the answer.
    pub(super) async fn propose_for(&self, who: &Credentials, command: Command) -> Result<(i64, Response), Refusal> {
        let asked = self.asked(who).await?;
        self.propose(command.by(asked.caller())).await
    }
}

/// Time on the wall's clock, for signed tokens.
pub(super) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

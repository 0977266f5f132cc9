//! Flags about who is let in, and what a member makes of them.

use super::{
    jwt::{self, Jwt, Keys},
    passwords::{COSTS, DEFAULT_COST},
    tokens::DEFAULT_TTL,
};
use crate::config::duration;
use jsonwebtoken::Algorithm;
use std::{collections::BTreeMap, io, time::Duration};

/// etcd's flags about users; names and defaults are its.
#[derive(Clone, Debug)]
pub struct Flags {
    /// How users prove who they are: `simple`, or `jwt,pub-key=FILE,priv-key=FILE,sign-method=RS256,ttl=10m`
    pub auth_token: String,
    /// Time in seconds for which a simple token that nobody uses is good
    pub auth_token_ttl: u32,
    /// Cost of hashing a password, from 4 to 31: two to the power of it
    pub bcrypt_cost: u32,
}

/// How long a signed token is good when nothing is said; etcd's.
const SIGNED_TTL: Duration = Duration::from_secs(300);

/// What `--auth-token` may say of signed tokens.
const OPTIONS: [&str; 4] = ["pub-key", "priv-key", "sign-method", "ttl"];

/// What is wrong with `--auth-token`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It begins with another word.
    #[error("--auth-token: unknown kind of token {0:?}: there are simple and jwt")]
    Kind(String),
    /// A part is not of the form.
    #[error("--auth-token: {0:?} is not of the form NAME=VALUE")]
    Form(String),
    /// A part says again what another said.
    #[error("--auth-token: {0} is given twice")]
    Twice(String),
    /// There is no such method.
    #[error(
        "--auth-token: sign-method {0:?} is none of HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA"
    )]
    Method(String),
    /// A time is none.
    #[error("--auth-token: ttl: {0}")]
    Ttl(String),
    /// A file cannot be read.
    #[error("--auth-token: read {option} {path}")]
    Read {
        /// Which.
        option: &'static str,
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The keys cannot be used.
    #[error("--auth-token: {0}")]
    Keys(#[from] jwt::Error),
}

/// How a member finds out who asks.
pub struct Authenticator {
    /// What users get for their password.
    pub tokens: TokenKind,
    /// How long a simple token is kept when nobody uses it.
    pub token_ttl: Duration,
    /// Cost of a password's hash.
    pub cost: u32,
    /// Who has no token is who their certificate names.
    pub certificates: bool,
}

/// See [`Authenticator::tokens`].
pub enum TokenKind {
    /// A random word that all members learn.
    Simple,
    /// A signed one.
    Signed(Box<Jwt>),
}

impl Flags {
    /// Reads the keys.
    pub fn authenticator(&self, certificates: bool) -> Result<Authenticator, Error> {
        let tokens = self.tokens()?;
        let cost = Some(self.bcrypt_cost).filter(|cost| COSTS.contains(cost)).unwrap_or_else(|| {
            tracing::warn!(given = self.bcrypt_cost, used = DEFAULT_COST, "--bcrypt-cost is not from 4 to 31; using the default");
            DEFAULT_COST
        });
        let token_ttl = Some(Duration::from_secs(self.auth_token_ttl.into())).filter(|ttl| !ttl.is_zero()).unwrap_or(DEFAULT_TTL);
        Ok(Authenticator { tokens, token_ttl, cost, certificates })
    }

    fn tokens(&self) -> Result<TokenKind, Error> {
        let mut parts = self.auth_token.split(',');
        let kind = parts.next().unwrap_or_default();
        let mut options = BTreeMap::new();
        for part in parts {
            let (name, value) = part.split_once('=').filter(|(_, value)| !value.contains('=')).ok_or(Error::Form(part.to_owned()))?;
            if options.insert(name, value).is_some() {
                return Err(Error::Twice(name.to_owned()));
            }
        }
        match kind {
            "simple" => Ok(TokenKind::Simple),
            "jwt" => Ok(TokenKind::Signed(Box::new(signed(&options)?))),
            other => Err(Error::Kind(other.to_owned())),
        }
    }
}

fn signed(options: &BTreeMap<&str, &str>) -> Result<Jwt, Error> {
    for unknown in options.keys().filter(|name| !OPTIONS.contains(name)) {
        tracing::warn!(option = unknown, "--auth-token has an unknown option; it is ignored");
    }
    let method = options.get("sign-method").copied().unwrap_or_default();
    let algorithm: Algorithm = method.parse().map_err(|_| Error::Method(method.to_owned()))?;
    let ttl = options.get("ttl").filter(|ttl| !ttl.is_empty()).map_or(Ok(SIGNED_TTL), |ttl| duration(ttl)).map_err(Error::Ttl)?;
    let read = |option: &'static str| {
        let path = options.get(option).filter(|path| !path.is_empty());
        path.map(|path| std::fs::read(path).map_err(|source| Error::Read { option, path: (*path).to_owned(), source })).transpose()
    };
    let (public, private) = (read("pub-key")?, read("priv-key")?);
    Ok(Jwt::new(algorithm, Keys { public: public.as_deref(), private: private.as_deref() }, ttl)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn flags(args: &[&str]) -> Flags {
        Config::from_flags(args).unwrap().auth
    }

    #[test]
    fn defaults_are_those_of_etcd() {
        let authenticator = flags(&[]).authenticator(false).unwrap();
        assert!(matches!(authenticator.tokens, TokenKind::Simple) && !authenticator.certificates);
        assert_eq!((authenticator.token_ttl, authenticator.cost), (Duration::from_secs(300), 10));
    }

    #[test]
    fn numbers_that_make_no_sense_give_way_to_the_defaults() {
        let authenticator = flags(&["--auth-token-ttl", "0", "--bcrypt-cost", "99"]).authenticator(true).unwrap();
        assert_eq!((authenticator.token_ttl, authenticator.cost), (Duration::from_secs(300), 10));
    }

    #[test]
    fn signed_tokens_need_a_method_and_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        std::fs::write(&key, "secret").unwrap();
        let key = key.to_str().unwrap();
        let told = |token: &str| flags(&["--auth-token", token]).authenticator(false).map(|made| made.tokens).err().map(|e| e.to_string());
        assert_eq!(told(&format!("jwt,priv-key={key},sign-method=HS256,ttl=10m,colour=red")), None);
        let error = |token: &str| told(token).unwrap();
        assert!(error(&format!("jwt,priv-key={key}")).contains("sign-method \"\" is none of"));
        assert!(error("jwt,sign-method=XY").contains("sign-method \"XY\""));
        assert!(error("jwt,sign-method=HS256").contains("priv-key is needed"));
        assert!(error(&format!("jwt,sign-method=HS256,priv-key={key},ttl=soon")).contains("--auth-token: ttl: invalid duration"));
        assert!(error("jwt,sign-method=HS256,priv-key=/nowhere/key").contains("read priv-key /nowhere/key"));
        assert!(error("jwt,sign-method=HS256,sign-method=HS384").contains("sign-method is given twice"));
        assert!(error("jwt,sign-method").contains("\"sign-method\" is not of the form"));
        assert!(error("complex").contains("unknown kind of token \"complex\""));
    }
}

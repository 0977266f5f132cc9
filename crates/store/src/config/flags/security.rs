//! Flags of TLS, of who may talk to this member, and of users.

use super::{Flag, accepted, flag};
use crate::config::kind::Kind::{Bool, Text, Unsigned, Words};

const ONE_PROCESS: &str = "the gateway of HTTP is part of this process and dials nobody";

pub(super) const FLAGS: &[Flag] = &[
    flag("cert-file", Text, "", "Server certificate for clients"),
    flag("key-file", Text, "", "Its key"),
    flag("client-cert-auth", Bool, "false", "Require a client certificate"),
    accepted("client-cert-file", Text, "", ONE_PROCESS),
    accepted("client-key-file", Text, "", ONE_PROCESS),
    flag("client-crl-file", Text, "", "List of client certificates that are not good any more"),
    flag("client-cert-allowed-hostname", Words, "", "Hosts whose certificates let a client in; any when not given"),
    flag("trusted-ca-file", Text, "", "Authorities client certificates are checked against; giving them requires a certificate"),
    flag("auto-tls", Bool, "false", "Make a self-signed certificate for clients when none is given"),
    flag("peer-cert-file", Text, "", "Certificate for peer traffic, as server and as client"),
    flag("peer-key-file", Text, "", "Its key"),
    flag("peer-client-cert-auth", Bool, "false", "Require a certificate from peers"),
    flag("peer-client-cert-file", Text, "", "Another certificate for dialing peers"),
    flag("peer-client-key-file", Text, "", "Its key"),
    flag("peer-trusted-ca-file", Text, "", "Authorities peer certificates are checked against"),
    flag("peer-cert-allowed-cn", Words, "", "Common names whose certificates let a peer in; any when not given"),
    flag("peer-cert-allowed-hostname", Words, "", "Hosts whose certificates let a peer in; any when not given"),
    flag("peer-auto-tls", Bool, "false", "Make a self-signed certificate for peers when none is given, and believe any of theirs"),
    flag("self-signed-cert-validity", Unsigned, "1", "Years for which such certificates are good"),
    flag("peer-crl-file", Text, "", "List of peer certificates that are not good any more"),
    accepted(
        "peer-skip-client-san-verification",
        Bool,
        "false",
        "where a peer connects from is not compared with the names in its certificate",
    ),
    flag("cipher-suites", Words, "", "Cipher suites up to TLS 1.2, by Go's names; all good ones when not given"),
    flag("tls-min-version", Text, "TLS1.2", "Least version of TLS: TLS1.2 or TLS1.3"),
    flag("tls-max-version", Text, "", "Latest version of TLS: TLS1.2 or TLS1.3"),
    flag("cors", Words, "*", "Origins whose pages may read answers over HTTP"),
    flag("host-whitelist", Words, "*", "Hosts that HTTP requests without TLS may name"),
];

/// etcd has no flags for these: who is asked for by name is so on either side, but only peers are by a flag.
pub(super) const IN_FILES: &[Flag] = &[
    flag("client-transport-security.allowed-cn", Words, "", "Common names whose certificates let a client in; any when not given"),
    accepted(
        "client-transport-security.skip-client-san-verification",
        Bool,
        "false",
        "where a client connects from is not compared with the names in its certificate; nor is it in etcd",
    ),
];

pub(super) const AUTH: &[Flag] = &[
    flag(
        "auth-token",
        Text,
        "simple",
        "How users prove who they are: `simple`, or `jwt,pub-key=FILE,priv-key=FILE,sign-method=RS256,ttl=10m`",
    ),
    flag("bcrypt-cost", Unsigned, "10", "Cost of hashing a password, from 4 to 31: two to the power of it"),
    flag("auth-token-ttl", Unsigned, "300", "Time in seconds for which a simple token that nobody uses is good"),
];

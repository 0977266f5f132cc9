//! Flags of how a member finds its cluster.

use super::{Flag, accepted, flag, refused};
use crate::config::kind::Kind::{Bool, OneOf, Text, Time, Urls, Words};

const NO_DISCOVERY: &str = "there is no discovery service here; list the members in --initial-cluster";
const OF_DISCOVERY: &str = "it says how to reach a discovery service, which is not offered here";

pub(super) const FLAGS: &[Flag] = &[
    flag("initial-advertise-peer-urls", Urls, "", "This member's peer URLs to tell the others; the listen URLs when not given"),
    flag("initial-cluster", Text, "", "The members of a new cluster, NAME=URL,…; of no account once there is a member"),
    flag("initial-cluster-state", OneOf(&["new", "existing"]), "new", "Whether to form a new cluster or join an existing one"),
    flag("initial-cluster-token", Text, "etcd-cluster", "Distinguishes clusters that have the same peer URLs"),
    flag("advertise-client-urls", Urls, "", "This member's client URLs to tell the others; the listen URLs when not given"),
    flag("strict-reconfig-check", Bool, "true", "Refuse changes of the membership that could cost the quorum"),
    accepted("pre-vote", Bool, "true", "members always ask first whether they would be elected"),
    flag("auto-compaction-retention", Text, "0", "History to keep: a duration or hours, or revisions; 0 keeps all"),
    flag("auto-compaction-mode", Text, "periodic", "How the retention is meant: periodic or revision"),
    refused("discovery", Text, "", NO_DISCOVERY),
    refused("discovery-token", Text, "", NO_DISCOVERY),
    refused("discovery-endpoints", Words, "", NO_DISCOVERY),
    refused("discovery-proxy", Text, "", NO_DISCOVERY),
    refused("discovery-srv", Text, "", NO_DISCOVERY),
    refused("discovery-srv-name", Text, "", NO_DISCOVERY),
    refused("discovery-fallback", OneOf(&["exit", "proxy"]), "exit", "there is no v2 proxy since etcd 3.6"),
    accepted("discovery-dial-timeout", Time, "2s", OF_DISCOVERY),
    accepted("discovery-request-timeout", Time, "5s", OF_DISCOVERY),
    accepted("discovery-keepalive-time", Time, "2s", OF_DISCOVERY),
    accepted("discovery-keepalive-timeout", Time, "6s", OF_DISCOVERY),
    accepted("discovery-insecure-transport", Bool, "true", OF_DISCOVERY),
    accepted("discovery-insecure-skip-tls-verify", Bool, "false", OF_DISCOVERY),
    accepted("discovery-cert", Text, "", OF_DISCOVERY),
    accepted("discovery-key", Text, "", OF_DISCOVERY),
    accepted("discovery-cacert", Text, "", OF_DISCOVERY),
    accepted("discovery-user", Text, "", OF_DISCOVERY),
    accepted("discovery-password", Text, "", OF_DISCOVERY),
];

//! How to run a member: etcd's flags, environment names and configuration file, and what they must satisfy together.
//!
//! [`flags`] is the table of all of them; [`line`], [`environment`] and [`file`] read them into [`settings`], and a [`Config`]
//! is made of those.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use crate::{auth, url::Url};

mod duration;
pub mod environment;
pub mod features;
pub mod file;
pub mod flags;
pub mod help;
pub mod kind;
pub mod line;
pub mod settings;
pub mod start;
pub mod tls;
pub mod upkeep;

pub(crate) use duration::duration;
use settings::Settings;
pub use start::Start;
use tls::Tls;
use upkeep::Upkeep;

/// The etcd version this store speaks: on `--version`, `/version` and in Status.
pub const ETCD_VERSION: &str = "3.6.6";

/// The minor version all members speak.
pub const ETCD_CLUSTER_VERSION: &str = "3.6.0";

/// How to run one member.
#[derive(Clone, Debug)]
pub struct Config {
    /// Human-readable name for this member
    pub name: String,
    /// Path to the data directory; `<name>.etcd` when not given
    pub data_dir: Option<PathBuf>,
    /// Where the log lies, if not in the data directory
    pub wal_dir: Option<PathBuf>,
    /// URLs to listen on for client traffic; port 0 takes any free port and prints it
    pub listen_client_urls: Vec<Url>,
    /// URLs to listen on for HTTP only; with them the others are for gRPC only
    pub listen_client_http_urls: Vec<Url>,
    /// This member's client URLs to tell the rest of the cluster; the listen URLs when not given
    pub advertise_client_urls: Vec<Url>,
    /// URLs to listen on for peer traffic
    pub listen_peer_urls: Vec<Url>,
    /// This member's peer URLs to tell the rest of the cluster; the listen URLs when not given
    pub initial_advertise_peer_urls: Vec<Url>,
    /// Initial cluster, `name=url,…`; ignored once the data directory holds a member
    pub initial_cluster: Option<String>,
    /// Whether to form a new cluster or wait to be added to an existing one
    pub initial_cluster_state: String,
    /// Distinguishes clusters that have the same peer URLs
    pub initial_cluster_token: String,
    /// Further URLs for /metrics and the health endpoints
    pub listen_metrics_urls: Vec<Url>,
    /// JSON over HTTP is served besides gRPC
    pub enable_grpc_gateway: bool,
    /// Hosts that HTTP requests without TLS may name; all where there are none, or `*`
    pub host_whitelist: Vec<String>,
    /// Origins whose pages may read answers over HTTP; all where there are none, or `*`
    pub cors: Vec<String>,
    /// How connections of clients are kept
    pub connections: Connections,

    /// Certificates, and whose are let in.
    pub tls: Tls,
    /// Who is let in.
    pub auth: auth::Flags,

    /// Time between a leader's heartbeats, in milliseconds
    pub heartbeat_interval: u64,
    /// Time without a heartbeat after which a follower campaigns, in milliseconds
    pub election_timeout: u64,
    /// Database size at which the space alarm is raised; 0 means etcd's 2 GiB
    pub quota_backend_bytes: i64,
    /// Largest client request
    pub max_request_bytes: usize,
    /// Most operations in one transaction
    pub max_txn_ops: usize,
    /// Log entries after which a snapshot is taken (one is also taken after 16 MiB of log)
    pub snapshot_count: u64,
    /// Rewrite the database at start when that frees so many megabytes; 0 for never
    pub bootstrap_defrag_threshold_megabytes: u64,
    /// Whoever else was a member is none any more
    pub force_new_cluster: bool,
    /// Refuse changes of the membership that could cost the quorum
    pub strict_reconfig_check: bool,
    /// Members that learn only, at most
    pub max_learners: usize,
    /// Time between progress notifications of idle watches
    pub watch_progress_notify_interval: Duration,
    /// What the member does to keep itself
    pub upkeep: Upkeep,
    /// debug, info, warn, error, panic or fatal
    pub log_level: String,
    /// console or json
    pub log_format: String,
    /// Where the log goes: default, stderr, stdout or files
    pub log_outputs: Vec<String>,
}

/// How connections of clients are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Most streams on one connection
    pub max_streams: u32,
    /// How often a client is asked whether it is still there; zero for never
    pub ask_every: Duration,
    /// How long it has to answer
    pub answer_within: Duration,
    /// Several processes may listen on one port
    pub reuse_port: bool,
}

impl Config {
    /// As the settings say.
    pub fn new(settings: &Settings) -> Self {
        Config {
            name: settings.text("name"),
            data_dir: settings.path("data-dir"),
            wal_dir: settings.path("wal-dir"),
            listen_client_urls: settings.urls("listen-client-urls"),
            listen_client_http_urls: settings.urls("listen-client-http-urls"),
            advertise_client_urls: settings.urls("advertise-client-urls"),
            listen_peer_urls: settings.urls("listen-peer-urls"),
            initial_advertise_peer_urls: settings.urls("initial-advertise-peer-urls"),
            initial_cluster: settings.some_text("initial-cluster"),
            initial_cluster_state: settings.text("initial-cluster-state"),
            initial_cluster_token: settings.text("initial-cluster-token"),
            listen_metrics_urls: settings.urls("listen-metrics-urls"),
            enable_grpc_gateway: settings.on("enable-grpc-gateway"),
            host_whitelist: settings.words("host-whitelist"),
            cors: settings.words("cors"),
            connections: Connections {
                max_streams: settings.number("max-concurrent-streams"),
                ask_every: settings.time("grpc-keepalive-interval"),
                answer_within: settings.time("grpc-keepalive-timeout"),
                reuse_port: settings.on("socket-reuse-port"),
            },
            tls: Tls::new(settings),
            auth: auth::Flags {
                auth_token: settings.text("auth-token"),
                auth_token_ttl: settings.number("auth-token-ttl"),
                bcrypt_cost: settings.number("bcrypt-cost"),
            },
            heartbeat_interval: settings.number("heartbeat-interval"),
            election_timeout: settings.number("election-timeout"),
            quota_backend_bytes: settings.signed("quota-backend-bytes"),
            max_request_bytes: settings.number("max-request-bytes"),
            max_txn_ops: settings.number("max-txn-ops"),
            snapshot_count: settings.number("snapshot-count"),
            bootstrap_defrag_threshold_megabytes: settings.number("bootstrap-defrag-threshold-megabytes"),
            force_new_cluster: settings.on("force-new-cluster"),
            strict_reconfig_check: settings.on("strict-reconfig-check"),
            max_learners: usize::try_from(settings.signed("max-learners")).unwrap_or_default(),
            watch_progress_notify_interval: match settings.time("watch-progress-notify-interval") {
                Duration::ZERO => Duration::from_secs(600),
                interval => interval,
            },
            upkeep: Upkeep::new(settings),
            log_level: settings.text("log-level"),
            log_format: settings.text("log-format"),
            log_outputs: settings.words("log-outputs"),
        }
    }

    /// As these words of a command line say, whatever the environment.
    ///
    /// # Errors
    /// Names the flag.
    pub fn from_flags(words: &[&str]) -> Result<Self, start::Error> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        match start::read(&words, &BTreeMap::new())? {
            Start::Serve { config, .. } => Ok(*config),
            Start::Print(_) => Err(start::Error::NoMember),
        }
    }

    /// The log level as a `tracing` filter; etcd's panic and fatal are errors here. openraft narrates at info.
    pub fn log_directive(&self) -> &str {
        match self.log_level.as_str() {
            "debug" => "debug",
            "info" => "info,openraft=error",
            "warn" => "warn,openraft=error",
            _ => "error",
        }
    }

    /// All URLs that are listened on with the certificate for clients.
    pub(crate) fn client_side_urls(&self) -> impl Iterator<Item = &Url> {
        self.listen_client_urls.iter().chain(&self.listen_client_http_urls).chain(&self.listen_metrics_urls)
    }

    /// Where this member keeps its data.
    pub fn data_dir(&self) -> PathBuf {
        let default = || PathBuf::from(format!("{}.etcd", self.name));
        self.data_dir.clone().unwrap_or_else(default)
    }

    /// The database size at which writes are refused, in bytes; none when the check is switched off (negative).
    pub fn quota(&self) -> Option<u64> {
        match self.quota_backend_bytes {
            0 => Some(2 * 1024 * 1024 * 1024),
            bytes => u64::try_from(bytes).ok(),
        }
    }

    /// Checks flags that contradict each other.
    pub fn validate(&self) -> Result<(), Error> {
        if self.heartbeat_interval == 0 || self.election_timeout == 0 {
            let flag = if self.heartbeat_interval == 0 { "--heartbeat-interval" } else { "--election-timeout" };
            return Err(Error::ZeroTiming(flag));
        }
        if self.heartbeat_interval.saturating_mul(5) > self.election_timeout {
            return Err(Error::ElectionTooShort(self.election_timeout, self.heartbeat_interval));
        }
        if self.election_timeout > 50_000 {
            return Err(Error::ElectionTooLong(self.election_timeout));
        }
        if !["json", "console"].contains(&self.log_format.as_str()) {
            return Err(Error::LogFormat(self.log_format.clone()));
        }
        self.upkeep.validate()?;
        let clients: Vec<_> = self.client_side_urls().cloned().collect();
        self.tls.check(&clients, &self.listen_peer_urls)?;
        Ok(())
    }
}

/// Flags that cannot be served together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("{0} must be >0 (set to 0ms)")]
    ZeroTiming(&'static str),
    #[error("unknown log format: {0}, supported values json, console")]
    LogFormat(String),
    #[error("--election-timeout[{0}ms] should be at least as 5 times as --heartbeat-interval[{1}ms]")]
    ElectionTooShort(u64, u64),
    #[error("--election-timeout[{0}ms] is too long, and should be set less than 50000ms")]
    ElectionTooLong(u64),
    #[error(transparent)]
    Upkeep(#[from] upkeep::Error),
    #[error(transparent)]
    Tls(#[from] tls::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Config {
        Config::from_flags(args).unwrap()
    }

    #[test]
    fn every_flag_that_is_obeyed_is_asked_for_and_no_other() {
        let settings = Settings::default();
        Config::new(&settings);
        let asked = settings.asked.take();
        let obeyed = flags::settings().filter(|flag| flag.meaning == flags::Meaning::Obeyed).map(|flag| flag.name);
        assert_eq!(asked, obeyed.collect());
    }

    #[test]
    fn defaults_are_those_of_etcd() {
        let config = parse(&[]);
        assert_eq!(config.data_dir(), PathBuf::from("default.etcd"));
        assert_eq!(config.max_request_bytes, 1_572_864);
        assert_eq!(config.quota(), Some(2_147_483_648));
        assert_eq!(config.watch_progress_notify_interval, Duration::from_secs(600));
        assert_eq!(config.validate(), Ok(()));
    }

    #[test]
    fn contradicting_flags_are_named() {
        let error = |args: &[&str]| Config::from_flags(args).unwrap_err().to_string();
        assert_eq!(error(&["--heartbeat-interval", "0"]), "--heartbeat-interval must be >0 (set to 0ms)");
        assert!(error(&["--election-timeout", "300"]).contains("5 times"));
        assert!(error(&["--heartbeat-interval", "18446744073709551615"]).contains("5 times"));
        assert_eq!(error(&["--log-format", "x"]), "unknown log format: x, supported values json, console");
    }
}

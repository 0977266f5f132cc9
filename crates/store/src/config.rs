//! etcd's flags and environment names, and what they must satisfy together.

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, Parser};

use crate::{
    auth,
    config_upkeep::{self, Upkeep},
    snapshot_command::Tool,
    url::Url,
};

/// The etcd version this store speaks: on `--version`, `/version` and in Status.
pub const ETCD_VERSION: &str = "3.6.6";

/// The minor version all members speak.
pub const ETCD_CLUSTER_VERSION: &str = "3.6.0";

const VERSION_TEXT: &str = concat!("etcd Version: 3.6.6\nQuarterdeck store: ", env!("CARGO_PKG_VERSION"));

/// The process's command line.
#[derive(Clone, Debug, Parser)]
#[command(name = "store", about = "An etcd-compatible store", disable_version_flag = true, args_conflicts_with_subcommands = true)]
pub struct CommandLine {
    /// How to run a member.
    #[command(flatten)]
    pub config: Config,
    /// What to do instead.
    #[command(subcommand)]
    pub tool: Option<Tool>,
}

impl CommandLine {
    /// Prints what is wrong with it, or the version when asked, and exits.
    pub fn from_args() -> Self {
        let line = Self::parse();
        if line.config.version {
            println!("{VERSION_TEXT}");
            std::process::exit(0);
        }
        line
    }
}

/// How to run one member. Flag names, environment names and defaults are etcd's; `ETCD_NAME` stands for `--name`, and a flag wins.
#[derive(Clone, Debug, Parser)]
#[command(name = "store", about = "An etcd-compatible store", disable_version_flag = true)]
pub struct Config {
    /// Human-readable name for this member
    #[arg(long, env = "ETCD_NAME", default_value = "default")]
    pub name: String,
    /// Path to the data directory; `<name>.etcd` when not given
    #[arg(long, env = "ETCD_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// URLs to listen on for client traffic; port 0 takes any free port and prints it
    #[arg(long, env = "ETCD_LISTEN_CLIENT_URLS", value_delimiter = ',', default_value = "http://localhost:2379")]
    pub listen_client_urls: Vec<Url>,
    /// This member's client URLs to tell the rest of the cluster; the listen URLs when not given
    #[arg(long, env = "ETCD_ADVERTISE_CLIENT_URLS", value_delimiter = ',')]
    pub advertise_client_urls: Vec<Url>,
    /// URLs to listen on for peer traffic
    #[arg(long, env = "ETCD_LISTEN_PEER_URLS", value_delimiter = ',', default_value = "http://localhost:2380")]
    pub listen_peer_urls: Vec<Url>,
    /// This member's peer URLs to tell the rest of the cluster; the listen URLs when not given
    #[arg(long, env = "ETCD_INITIAL_ADVERTISE_PEER_URLS", value_delimiter = ',')]
    pub initial_advertise_peer_urls: Vec<Url>,
    /// Initial cluster, `name=url,…`; ignored once the data directory holds a member
    #[arg(long, env = "ETCD_INITIAL_CLUSTER")]
    pub initial_cluster: Option<String>,
    /// Whether to form a new cluster or wait to be added to an existing one
    #[arg(long, env = "ETCD_INITIAL_CLUSTER_STATE", default_value = "new", value_parser = ["new", "existing"])]
    pub initial_cluster_state: String,
    /// Distinguishes clusters that have the same peer URLs
    #[arg(long, env = "ETCD_INITIAL_CLUSTER_TOKEN", default_value = "etcd-cluster")]
    pub initial_cluster_token: String,
    /// Further URLs for /metrics and the health endpoints
    #[arg(long, env = "ETCD_LISTEN_METRICS_URLS", value_delimiter = ',')]
    pub listen_metrics_urls: Vec<Url>,

    /// Server certificate for clients
    #[arg(long, env = "ETCD_CERT_FILE")]
    pub cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, env = "ETCD_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// Require a client certificate
    #[arg(long, env = "ETCD_CLIENT_CERT_AUTH", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub client_cert_auth: bool,
    /// Authorities client certificates are checked against; giving them requires a certificate
    #[arg(long, env = "ETCD_TRUSTED_CA_FILE")]
    pub trusted_ca_file: Option<PathBuf>,
    /// Certificate for peer traffic, as server and as client
    #[arg(long, env = "ETCD_PEER_CERT_FILE")]
    pub peer_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, env = "ETCD_PEER_KEY_FILE")]
    pub peer_key_file: Option<PathBuf>,
    /// Require a certificate from peers
    #[arg(long, env = "ETCD_PEER_CLIENT_CERT_AUTH", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub peer_client_cert_auth: bool,
    /// Authorities peer certificates are checked against
    #[arg(long, env = "ETCD_PEER_TRUSTED_CA_FILE")]
    pub peer_trusted_ca_file: Option<PathBuf>,
    /// Who is let in.
    #[command(flatten)]
    pub auth: auth::Flags,

    /// Time between a leader's heartbeats, in milliseconds
    #[arg(long, env = "ETCD_HEARTBEAT_INTERVAL", default_value_t = 100)]
    pub heartbeat_interval: u64,
    /// Time without a heartbeat after which a follower campaigns, in milliseconds
    #[arg(long, env = "ETCD_ELECTION_TIMEOUT", default_value_t = 1000)]
    pub election_timeout: u64,
    /// Database size at which the space alarm is raised; 0 means etcd's 2 GiB
    #[arg(long, env = "ETCD_QUOTA_BACKEND_BYTES", default_value_t = 0, allow_negative_numbers = true)]
    pub quota_backend_bytes: i64,
    /// Largest client request
    #[arg(long, env = "ETCD_MAX_REQUEST_BYTES", default_value_t = 1024 * 1024 * 3 / 2)]
    pub max_request_bytes: usize,
    /// Most operations in one transaction
    #[arg(long, env = "ETCD_MAX_TXN_OPS", default_value_t = 128)]
    pub max_txn_ops: usize,
    /// Log entries after which a snapshot is taken (one is also taken after 16 MiB of log)
    #[arg(long, env = "ETCD_SNAPSHOT_COUNT", default_value_t = 10_000)]
    pub snapshot_count: u64,
    /// Refuse changes of the membership that could cost the quorum
    #[arg(long, env = "ETCD_STRICT_RECONFIG_CHECK", num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = ArgAction::Set)]
    pub strict_reconfig_check: bool,
    /// Members that learn only, at most
    #[arg(long, alias = "experimental-max-learners", env = "ETCD_MAX_LEARNERS", default_value_t = 1)]
    pub max_learners: usize,
    /// Time between progress notifications of idle watches
    #[arg(long, alias = "experimental-watch-progress-notify-interval", env = "ETCD_WATCH_PROGRESS_NOTIFY_INTERVAL", default_value = "10m", value_parser = duration)]
    pub watch_progress_notify_interval: Duration,
    /// What the member does to keep itself
    #[command(flatten)]
    pub upkeep: Upkeep,
    /// debug, info, warn, error, panic or fatal
    #[arg(long, env = "ETCD_LOG_LEVEL", default_value = "info", value_parser = ["debug", "info", "warn", "error", "panic", "fatal"])]
    pub log_level: String,
    /// console or json
    #[arg(long, env = "ETCD_LOG_FORMAT", value_parser = ["console", "json"])]
    pub log_format: Option<String>,

    /// Print the version and exit
    #[arg(long)]
    version: bool,
}

impl Config {
    /// The log level as a `tracing` filter; etcd's panic and fatal are errors here. openraft narrates at info.
    pub fn log_directive(&self) -> &str {
        match self.log_level.as_str() {
            "debug" => "debug",
            "info" => "info,openraft=error",
            "warn" => "warn,openraft=error",
            _ => "error",
        }
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

    /// Checks what clap cannot: flags that contradict each other.
    pub fn validate(&self) -> Result<(), Error> {
        if self.heartbeat_interval == 0 || self.election_timeout == 0 {
            return Err(Error::ZeroTiming);
        }
        if 5 * self.heartbeat_interval > self.election_timeout {
            return Err(Error::ElectionTooShort(self.election_timeout, self.heartbeat_interval));
        }
        if self.election_timeout > 50_000 {
            return Err(Error::ElectionTooLong(self.election_timeout));
        }
        self.upkeep.validate()?;
        self.check_tls("client", &self.listen_client_urls, &self.cert_file, &self.key_file)?;
        self.check_tls("peer", &self.listen_peer_urls, &self.peer_cert_file, &self.peer_key_file)?;
        if self.client_cert_auth && self.trusted_ca_file.is_none() {
            return Err(Error::NoAuthority("--client-cert-auth", "--trusted-ca-file"));
        }
        if self.peer_client_cert_auth && self.peer_trusted_ca_file.is_none() {
            return Err(Error::NoAuthority("--peer-client-cert-auth", "--peer-trusted-ca-file"));
        }
        Ok(())
    }

    fn check_tls(&self, side: &'static str, urls: &[Url], cert: &Option<PathBuf>, key: &Option<PathBuf>) -> Result<(), Error> {
        if cert.is_some() != key.is_some() {
            return Err(Error::HalfKeyPair(side));
        }
        match urls.iter().find(|url| url.tls && cert.is_none()) {
            Some(url) => Err(Error::NoCertificate(side, url.clone())),
            None => Ok(()),
        }
    }
}

/// Flags that cannot be served together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("--heartbeat-interval and --election-timeout must be >0")]
    ZeroTiming,
    #[error("--election-timeout[{0}ms] should be at least as 5 times as --heartbeat-interval[{1}ms]")]
    ElectionTooShort(u64, u64),
    #[error("--election-timeout[{0}ms] is too long, and should be set less than 50000ms")]
    ElectionTooLong(u64),
    #[error(transparent)]
    Upkeep(#[from] config_upkeep::Error),
    #[error("the {0} certificate and its key must be given together")]
    HalfKeyPair(&'static str),
    #[error("{1} asks for TLS, but no {0} certificate is given")]
    NoCertificate(&'static str, Url),
    #[error("{0} needs {1}")]
    NoAuthority(&'static str, &'static str),
}

/// A Go duration such as `5s`, `10m`, `1h30m`, `250ms` or `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match text {
        "" => return Err(format!("invalid duration {text:?}")),
        "0" => return Ok(Duration::ZERO),
        _ => {}
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(|| format!("missing unit in {text:?}"))?;
        let number: f64 = rest[..digits].parse().map_err(|_| format!("invalid duration {text:?}"))?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |i| digits + i);
        let seconds = match &rest[digits..unit_end] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            unit => return Err(format!("unknown unit {unit:?} in duration {text:?}")),
        };
        total += Duration::try_from_secs_f64(number * seconds).map_err(|e| e.to_string())?;
        rest = &rest[unit_end..];
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Config {
        Config::parse_from([&["store"], args].concat())
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
    fn a_boolean_flag_stands_alone_or_with_a_value() {
        assert!(parse(&["--client-cert-auth"]).client_cert_auth);
        assert!(parse(&["--client-cert-auth=true"]).client_cert_auth);
        assert!(!parse(&["--client-cert-auth=false"]).client_cert_auth);
    }

    #[test]
    fn contradicting_flags_are_named() {
        let error = |args: &[&str]| parse(args).validate().unwrap_err().to_string();
        assert!(error(&["--election-timeout", "300"]).contains("5 times"));
        assert!(error(&["--cert-file", "a"]).contains("together"));
        assert!(error(&["--listen-peer-urls", "https://127.0.0.1:0"]).contains("no peer certificate"));
        assert!(error(&["--client-cert-auth"]).contains("--trusted-ca-file"));
    }

    #[test]
    fn go_durations_are_read() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("").is_err());
        assert!(duration("5").is_err());
        assert!(duration("5 parsecs").is_err());
    }
}

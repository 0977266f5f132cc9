//! kube-apiserver's flags.

mod replicas;

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::Parser;
use component::gates::{Feature, FeatureGates, Stage};
use ipnet::IpNet;

pub use replicas::{EndpointReconciler, EtcdOverride, Replicas};

/// What the server runs with. Flags are kube-apiserver's.
#[derive(Clone, Debug, Parser)]
#[command(name = "apiserver", about = "The Kubernetes API over HTTPS, backed by an etcd v3 store", version = crate::VERSION)]
pub struct Config {
    /// List of etcd servers to connect with (scheme://ip:port), comma separated.
    #[arg(long, value_delimiter = ',', required = true)]
    pub etcd_servers: Vec<String>,
    /// SSL Certificate Authority file used to secure etcd communication.
    #[arg(long)]
    pub etcd_cafile: Option<PathBuf>,
    /// SSL certification file used to secure etcd communication.
    #[arg(long)]
    pub etcd_certfile: Option<PathBuf>,
    /// SSL key file used to secure etcd communication.
    #[arg(long)]
    pub etcd_keyfile: Option<PathBuf>,
    /// The prefix to prepend to all resource paths in etcd.
    #[arg(long, default_value = "/registry")]
    pub etcd_prefix: String,
    /// The interval of compaction requests; 0 disables them.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub etcd_compaction_interval: Duration,

    /// The port on which to serve HTTPS; 0 picks a free one.
    #[arg(long, default_value_t = 6443)]
    pub secure_port: u16,
    /// The IP address on which to listen.
    #[arg(long, default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// The IP address on which to advertise the server to members of the cluster.
    #[arg(long)]
    pub advertise_address: Option<IpAddr>,
    /// File containing the default x509 certificate for HTTPS.
    #[arg(long, required = true)]
    pub tls_cert_file: PathBuf,
    /// File containing the default x509 private key matching --tls-cert-file.
    #[arg(long, required = true)]
    pub tls_private_key_file: PathBuf,
    /// Requests with a client certificate signed by one of these authorities authenticate as its CommonName.
    #[arg(long)]
    pub client_ca_file: Option<PathBuf>,
    /// Regular expressions of origins that browsers may call from, comma separated.
    #[arg(long, value_delimiter = ',')]
    pub cors_allowed_origins: Vec<regex::Regex>,

    /// CIDR ranges from which to assign service cluster IPs: one, or one a family.
    #[arg(long, value_delimiter = ',', default_value = "10.0.0.0/24")]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// A port range to reserve for services with NodePort visibility, e.g. 30000-32767.
    #[arg(long, default_value = "30000-32767", value_parser = port_range)]
    pub service_node_port_range: PortRange,

    /// Identifier of the service account token issuer; the first one signs, all are accepted.
    #[arg(long)]
    pub service_account_issuer: Vec<String>,
    /// File containing keys that verify service account tokens. May be given several times.
    #[arg(long)]
    pub service_account_key_file: Vec<PathBuf>,
    /// File containing the private key that signs service account tokens.
    #[arg(long)]
    pub service_account_signing_key_file: Option<PathBuf>,
    /// Identifiers of the API that tokens are checked against; by default the issuer.
    #[arg(long, value_delimiter = ',')]
    pub api_audiences: Vec<String>,
    /// The longest lifetime of a token created by the issuer; 0 = no limit.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub service_account_max_token_expiration: Duration,
    /// URL of the JSON web key set; by default derived from the server's address.
    #[arg(long)]
    pub service_account_jwks_uri: Option<String>,

    /// Ordered list of plug-ins to do authorization: AlwaysAllow, AlwaysDeny, Node, RBAC.
    #[arg(long, value_delimiter = ',', default_value = "AlwaysAllow", value_parser = authorization_mode)]
    pub authorization_mode: Vec<String>,
    /// Admission plugins to enable beside the default ones, comma separated.
    #[arg(long, value_delimiter = ',')]
    pub enable_admission_plugins: Vec<String>,
    /// Admission plugins to disable although they are on by default, comma separated.
    #[arg(long, value_delimiter = ',')]
    pub disable_admission_plugins: Vec<String>,
    /// Whether to allow privileged containers.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub allow_privileged: bool,
    /// Whether requests without credentials are served as system:anonymous.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    pub anonymous_auth: bool,
    /// Whether bootstrap token Secrets authenticate.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub enable_bootstrap_token_auth: bool,

    /// Path to a client certificate file for kubelets.
    #[arg(long)]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Path to a client key file for kubelets.
    #[arg(long)]
    pub kubelet_client_key: Option<PathBuf>,
    /// Path to a certificate authority that verifies kubelets.
    #[arg(long)]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Node address types to reach kubelets by, in order of preference.
    #[arg(long, value_delimiter = ',', default_value = "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP")]
    pub kubelet_preferred_address_types: Vec<String>,

    /// Authority of front proxies, whose headers name the user.
    #[arg(long)]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names front proxies may have; none means any signed by the authority.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers to look for user names in.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_username_headers: Vec<String>,
    /// Headers to look for user uids in.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers to look for groups in.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_group_headers: Vec<String>,
    /// Prefixes of headers to look for extra facts in.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// Client certificate that proves this server to aggregated ones.
    #[arg(long)]
    pub proxy_client_cert_file: Option<PathBuf>,
    /// Key of --proxy-client-cert-file.
    #[arg(long)]
    pub proxy_client_key_file: Option<PathBuf>,
    /// Whether requests to aggregated servers go to endpoint IPs rather than cluster IPs.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub enable_aggregator_routing: bool,

    /// How long a request may take before it times out.
    #[arg(long, default_value = "1m", value_parser = duration)]
    pub request_timeout: Duration,
    /// How long a watch lasts at least, in seconds; each lasts up to twice as long.
    #[arg(long, default_value_t = 1800)]
    pub min_request_timeout: u64,
    /// The maximum number of non-mutating requests in flight; 0 = no limit.
    #[arg(long, default_value_t = 400)]
    pub max_requests_inflight: usize,
    /// The maximum number of mutating requests in flight; 0 = no limit.
    #[arg(long, default_value_t = 200)]
    pub max_mutating_requests_inflight: usize,
    /// Amount of time to retain events.
    #[arg(long, default_value = "1h", value_parser = duration)]
    pub event_ttl: Duration,
    /// How long the server goes on serving after a signal to stop.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub shutdown_delay_duration: Duration,

    /// What matters where several servers share the work.
    #[command(flatten)]
    pub replicas: Replicas,

    /// Features by name, `Name=true`, comma separated.
    #[arg(long, default_value = "", value_parser = feature_gates)]
    pub feature_gates: FeatureGates,
    /// Log format and level.
    #[command(flatten)]
    pub logs: component::logs::LogFlags,
}

/// `--service-node-port-range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRange(pub std::ops::RangeInclusive<u16>);

/// No request takes longer, whatever `--request-timeout` says: upstream bounds its handlers alike.
const UPPER_BOUND: Duration = Duration::from_secs(34);

impl Config {
    /// The upper bound of requests that do not run long.
    pub(crate) fn timeout(&self) -> Duration {
        self.request_timeout.min(UPPER_BOUND)
    }

    /// Reads the command line. `Err` holds what to print and the exit code: 0 for help, 1 for a mistake, as upstream exits.
    ///
    /// # Errors
    /// When a flag is unknown, malformed or missing; or when help or the version is asked for.
    pub fn from_args(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, (String, u8)> {
        Self::try_parse_from(args).map_err(|error| {
            use clap::error::ErrorKind;
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => (error.to_string(), 0),
                _ => (mistake(&error), 1),
            }
        })
    }
}

/// A mistake in the flags, worded as upstream words the common ones.
fn mistake(error: &clap::Error) -> String {
    use clap::error::{ContextKind, ErrorKind};
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let argument = context(ContextKind::InvalidArg);
    let name = argument.split_whitespace().next().unwrap_or_default().trim_start_matches('-').to_owned();
    let text = match error.kind() {
        ErrorKind::UnknownArgument => format!("unknown flag: {argument}"),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            format!("invalid argument {:?} for \"--{name}\" flag: {cause}", context(ContextKind::InvalidValue))
        }
        _ => return error.to_string(),
    };
    format!("Error: {text}\n")
}

/// Go's duration notation: `1h`, `5m30s`, `100ms`.
fn duration(text: &str) -> Result<Duration, String> {
    crate::pipeline::parse_go_duration(text).ok_or_else(|| format!("time: invalid duration {text:?}"))
}

/// The features that can be switched, as upstream has them.
const FEATURES: &[Feature] = &[Feature { name: crate::cbor::FEATURE, default: false, stage: Stage::Alpha }];

fn feature_gates(text: &str) -> Result<FeatureGates, String> {
    FeatureGates::parse(FEATURES, text).map_err(|e| e.to_string())
}

fn port_range(text: &str) -> Result<PortRange, String> {
    let (low, high) = text.split_once('-').ok_or("expected hyphenated port range")?;
    let number = |t: &str| t.trim().parse::<u16>().map_err(|e| format!("unable to parse port {t:?}: {e}"));
    let (low, high) = (number(low)?, number(high)?);
    if low > high { Err(format!("end port cannot be less than start port: {text}")) } else { Ok(PortRange(low..=high)) }
}

fn authorization_mode(text: &str) -> Result<String, String> {
    const MODES: [&str; 4] = ["AlwaysAllow", "AlwaysDeny", "Node", "RBAC"];
    if MODES.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a valid mode; valid modes are {}", MODES.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(extra: &[&str]) -> Result<Config, (String, u8)> {
        let base = ["apiserver", "--etcd-servers=http://127.0.0.1:2379", "--tls-cert-file=c", "--tls-private-key-file=k"];
        Config::from_args(base.iter().chain(extra).map(Into::into))
    }

    #[test]
    fn the_flags_of_a_usual_cluster_are_understood() {
        let config = parse(&[
            "--authorization-mode=Node,RBAC",
            "--allow-privileged",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--anonymous-auth=false",
        ])
        .unwrap();
        assert_eq!(config.authorization_mode, ["Node", "RBAC"]);
        assert!(config.allow_privileged && !config.anonymous_auth);
        assert_eq!(config.timeout(), Duration::from_secs(34));
    }

    #[test]
    fn one_server_of_several_is_told_how_they_share_the_work() {
        let config = parse(&[]).unwrap().replicas;
        assert_eq!((config.endpoint_reconciler_type, config.shutdown_send_retry_after), (EndpointReconciler::Lease, false));
        let config = parse(&["--endpoint-reconciler-type=none", "--shutdown-send-retry-after", "--apiserver-count=3"]).unwrap().replicas;
        assert_eq!((config.endpoint_reconciler_type, config.shutdown_send_retry_after), (EndpointReconciler::None, true));
        for (flag, value) in [("endpoint-reconciler-type", "master-count"), ("etcd-servers-overrides", "/events"), ("apiserver-count", "0")]
        {
            let (text, code) = parse(&[&format!("--{flag}={value}")]).unwrap_err();
            assert!(code == 1 && text.contains(&format!("invalid argument {value:?} for \"--{flag}\" flag: ")), "{text}");
        }
    }

    #[test]
    fn an_unknown_flag_is_named_and_exits_with_1() {
        assert_eq!(parse(&["--no-such-flag"]).unwrap_err(), ("Error: unknown flag: --no-such-flag\n".to_owned(), 1));
    }

    #[test]
    fn a_malformed_value_is_named_with_its_flag() {
        let (text, code) = parse(&["--request-timeout=soon"]).unwrap_err();
        assert_eq!(code, 1);
        assert!(text.contains("invalid argument \"soon\" for \"--request-timeout\" flag: time: invalid duration"), "{text}");
    }
}

//! The rim: what the kernel has, and changing it, by the `ip` and `iptables` commands.

use std::{net::IpAddr, process::Stdio, time::Duration};

use anyhow::{Context as _, bail};
use ipnet::IpNet;
use serde::Deserialize;
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::plan::{Action, Route};

/// Marks our routes (`ip route show proto 113`); no routing daemon in iproute2's table of protocols has this number.
const PROTOCOL: &str = "113";
/// A command that takes longer is killed.
const DEADLINE: Duration = Duration::from_secs(10);
/// Seconds that iptables waits for whoever else is changing rules.
const LOCK_WAIT: &str = "5";

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Whether `net` is of this family.
    pub(crate) fn has(self, net: &IpNet) -> bool {
        net.addr().is_ipv4() == (self == Self::V4)
    }

    /// Addresses that are never translated.
    pub(crate) fn multicast(self) -> &'static str {
        match self {
            Self::V4 => "224.0.0.0/4",
            Self::V6 => "ff00::/8",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }

    fn iptables(self) -> &'static str {
        match self {
            Self::V4 => "iptables",
            Self::V6 => "ip6tables",
        }
    }

    fn forwarding(self) -> &'static str {
        match self {
            Self::V4 => "/proc/sys/net/ipv4/ip_forward",
            Self::V6 => "/proc/sys/net/ipv6/conf/all/forwarding",
        }
    }
}

/// What is read and changed; every call is bounded in time.
pub(crate) trait Kernel: Send + Sync + 'static {
    /// Lets packets pass between interfaces.
    fn forward(&self, family: Family) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// The routes that [`Kernel::act`] made.
    fn routes(&self, family: Family) -> impl Future<Output = anyhow::Result<Vec<Route>>> + Send;
    /// Changes one route.
    fn act(&self, action: &Action) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// All rules, as `iptables-save` prints them.
    fn rules(&self, family: Family) -> impl Future<Output = anyhow::Result<String>> + Send;
    /// Changes rules by an input of `iptables-restore`; those it does not name stay.
    fn restore(&self, family: Family, input: &str) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The kernel of this machine, in this process's network namespace.
pub(crate) struct Linux;

impl Kernel for Linux {
    async fn forward(&self, family: Family) -> anyhow::Result<()> {
        let path = family.forwarding();
        let now = std::fs::read_to_string(path).with_context(|| format!("read {path}"))?;
        // Only when needed: in a container the file is often read-only, and right already.
        if now.trim() == "1" {
            return Ok(());
        }
        std::fs::write(path, "1").with_context(|| format!("turn on forwarding in {path}"))
    }

    async fn routes(&self, family: Family) -> anyhow::Result<Vec<Route>> {
        parse(&run("ip", &["-json", family.option(), "route", "show", "table", "main", "proto", PROTOCOL], None).await?)
    }

    async fn act(&self, action: &Action) -> anyhow::Result<()> {
        let (verb, to, via) = match action {
            Action::Add { to, via } => ("add", to, Some(via)),
            Action::Replace { to, via } => ("replace", to, Some(via)),
            Action::Remove { to } => ("del", to, None),
        };
        let (to, via) = (to.to_string(), via.map(IpAddr::to_string));
        let mut args = vec!["route", verb, &to, "table", "main", "proto", PROTOCOL];
        args.extend(via.iter().flat_map(|via| ["via", via]));
        run("ip", &args, None).await.map(drop)
    }

    async fn rules(&self, family: Family) -> anyhow::Result<String> {
        run(&format!("{}-save", family.iptables()), &[], None).await
    }

    async fn restore(&self, family: Family, input: &str) -> anyhow::Result<()> {
        run(&format!("{}-restore", family.iptables()), &["--noflush", "--wait", LOCK_WAIT], Some(input)).await.map(drop)
    }
}

/// Output of a command that must succeed in time.
async fn run(program: &str, args: &[&str], input: Option<&str>) -> anyhow::Result<String> {
    let shown = || std::iter::once(&program).chain(args).copied().collect::<Vec<_>>().join(" ");
    match tokio::time::timeout(DEADLINE, output(program, args, input)).await {
        Ok(outcome) => outcome.with_context(shown),
        Err(_) => bail!("{}: no end within {DEADLINE:?}", shown()),
    }
}

async fn output(program: &str, args: &[&str], input: Option<&str>) -> anyhow::Result<String> {
    // Debian keeps them in sbin, which not everybody's PATH has.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut command = Command::new(program);
    command.args(args).env("PATH", path).env("LC_ALL", "C").kill_on_drop(true);
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() }).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("start")?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // A command that ends early has closed it; how it ended says why.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = child.wait_with_output().await.context("wait for its end")?;
    if !output.status.success() {
        bail!("{} ({})", String::from_utf8_lossy(&output.stderr).trim(), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// One element of `ip -json route show`.
#[derive(Deserialize)]
struct Shown {
    dst: String,
    gateway: Option<IpAddr>,
}

fn parse(json: &str) -> anyhow::Result<Vec<Route>> {
    // Some versions print nothing for no routes.
    if json.trim().is_empty() {
        return Ok(Vec::new());
    }
    let shown: Vec<Shown> = serde_json::from_str(json).context("read the output of `ip -json route`")?;
    shown.iter().map(|route| Ok(Route { to: destination(route)?, via: route.gateway })).collect()
}

/// A host's route is printed without its length, and the one to everywhere with a word.
fn destination(route: &Shown) -> anyhow::Result<IpNet> {
    let everywhere = || match route.gateway {
        Some(IpAddr::V6(_)) => "::/0",
        _ => "0.0.0.0/0",
    };
    let text = if route.dst == "default" { everywhere() } else { &route.dst };
    let host = text.parse::<IpAddr>().map(IpNet::from);
    host.or_else(|_| text.parse()).with_context(|| format!("{text:?} in the output of `ip -json route` is not a destination"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_ip_prints() {
        let json = r#"[{"dst":"10.244.2.0/24","gateway":"192.0.2.2","dev":"eth0","flags":[]},
                       {"dst":"10.244.3.7","dev":"eth0","scope":"link","flags":["linkdown"]},
                       {"type":"blackhole","dst":"fd00:2::/64","dev":"lo","metric":1024,"flags":[],"pref":"medium"},
                       {"dst":"default","gateway":"2001:db8::1","dev":"eth0","flags":[]}]"#;
        let routes: Vec<_> =
            parse(json).unwrap().iter().map(|route| (route.to.to_string(), route.via.map(|via| via.to_string()))).collect();
        let route = |to: &str, via: Option<&str>| (to.to_owned(), via.map(str::to_owned));
        let expected = [
            route("10.244.2.0/24", Some("192.0.2.2")),
            route("10.244.3.7/32", None),
            route("fd00:2::/64", None),
            route("::/0", Some("2001:db8::1")),
        ];
        assert_eq!(routes, expected);
    }

    #[test]
    fn no_output_is_no_routes_and_nonsense_is_an_error() {
        assert!(parse("\n").unwrap().is_empty());
        assert!(parse("[ ]").unwrap().is_empty());
        assert!(parse("RTNETLINK answers").is_err());
        assert!(parse(r#"[{"dst":"x"}]"#).is_err());
    }

    #[tokio::test]
    async fn a_failed_command_is_named_with_what_it_said() {
        let error = run("sh", &["-c", "echo no such thing >&2; exit 2"], None).await.unwrap_err();
        let text = format!("{error:#}");
        assert!(text.starts_with("sh -c ") && text.contains("no such thing"), "{text}");
        let error = run("no-such-program", &[], None).await.unwrap_err();
        assert!(format!("{error:#}").starts_with("no-such-program: start"), "{error:#}");
    }
}

//! The admin of a cluster, with kubectl and etcdctl: the same however the cluster runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{Output, run, run_with_input};

/// Drives a cluster with real clients.
#[derive(Clone)]
pub struct Admin {
    directory: PathBuf,
    members: BTreeMap<String, String>,
}

impl Admin {
    /// The admin whose `admin.conf` and `pki` lie in a directory; `members` are the store's names and client URLs.
    pub(crate) fn new(directory: &Path, members: BTreeMap<String, String>) -> Self {
        Self { directory: directory.to_owned(), members }
    }

    /// The cluster's data directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.conf")
    }

    /// A kubectl that has yet to be started.
    pub fn kubectl_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        // A cache of its own: clusters of different tests share addresses over time.
        command.env("KUBECONFIG", self.kubeconfig()).env("KUBECACHEDIR", self.directory.join("kubectl-cache")).args(args);
        command
    }

    /// kubectl.
    pub fn kubectl(&self, args: &[&str]) -> Output {
        run(&mut self.kubectl_command(args))
    }

    /// kubectl with text on standard input.
    pub fn kubectl_with_input(&self, args: &[&str], input: &str) -> Output {
        run_with_input(&mut self.kubectl_command(args), input)
    }

    /// An object as JSON, if it is there.
    pub fn get(&self, args: &[&str]) -> Option<Value> {
        let output = self.kubectl(&[&["get", "-o", "json"], args].concat());
        if output.code == 0 { Some(serde_json::from_str(&output.out).unwrap()) } else { None }
    }

    /// The objects of a list, while the API server may be away: then what it or kubectl said.
    pub fn list(&self, args: &[&str]) -> Result<Vec<Value>, String> {
        let output = self.kubectl(&[&["get", "-o", "json", "--request-timeout=5s"], args].concat());
        let list: Value = if output.code == 0 { serde_json::from_str(&output.out).unwrap() } else { return Err(output.err) };
        Ok(list["items"].as_array().unwrap().clone())
    }

    /// Applies a manifest.
    pub fn apply(&self, manifest: &str) -> String {
        self.kubectl_with_input(&["apply", "-f", "-"], manifest).ok()
    }

    /// The client URLs of these members of the store, separated by commas.
    pub fn endpoints(&self, members: &[&str]) -> String {
        let url = |member: &&str| self.members.get(*member).unwrap_or_else(|| panic!("no {member} in {:?}", self.members)).as_str();
        members.iter().map(url).collect::<Vec<_>>().join(",")
    }

    /// An etcdctl against these members that has yet to be started.
    pub fn etcdctl_command(&self, members: &[&str], args: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", self.endpoints(members)));
        for (flag, file) in [("cacert", "ca.crt"), ("cert", "healthcheck-client.crt"), ("key", "healthcheck-client.key")] {
            command.arg(format!("--{flag}={}", self.directory.join("pki/etcd").join(file).display()));
        }
        command.args(args);
        command
    }

    /// etcdctl as the operator, against these members.
    pub fn etcdctl(&self, members: &[&str], args: &[&str]) -> Output {
        run(&mut self.etcdctl_command(members, args))
    }
}

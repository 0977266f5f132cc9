//! etcdctl 3.5 on clusters of three processes, the store's and a real etcd's: the same is done to both, and the same is said.
#![allow(clippy::unwrap_used)]

mod contenders;
mod keys;
mod maintenance;
mod members;

use std::process::Command;

use serde_json::Value;
use tests::{Maker, Output, Server, run_with_input};

const MAKERS: [Maker; 2] = [Maker::Ours, Maker::Etcd];

/// A cluster.
struct Group {
    maker: Maker,
    members: Vec<Server>,
}

impl Group {
    fn start(maker: Maker) -> Self {
        eprintln!("{maker:?}");
        Self { maker, members: Server::cluster(maker, 3) }
    }

    /// An etcdctl against all members that has yet to be started.
    fn command(&self, args: &[&str]) -> Command {
        let endpoints: Vec<_> = self.members.iter().map(Server::endpoint).collect();
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", endpoints.join(","))).args(args);
        command
    }

    fn try_ctl(&self, args: &[&str]) -> Output {
        self.ctl_with_input(args, "")
    }

    fn ctl_with_input(&self, args: &[&str], input: &str) -> Output {
        run_with_input(&mut self.command(args), input)
    }

    /// What it prints when it succeeds.
    fn ctl(&self, args: &[&str]) -> String {
        self.try_ctl(args).ok()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ctl(&[args, &["-w", "json"]].concat())).unwrap()
    }

    /// The members as they are listed.
    fn listed(&self) -> Vec<Value> {
        self.json(&["member", "list"])["members"].as_array().unwrap().clone()
    }

    /// The position of the member that leads.
    fn leader(&self) -> usize {
        let all = self.json(&["endpoint", "status"]);
        let leads = |one: &Value| one["Status"]["leader"] == one["Status"]["header"]["member_id"];
        let leader = all.as_array().unwrap().iter().find(|one| leads(one)).unwrap()["Endpoint"].clone();
        self.members.iter().position(|member| leader == member.endpoint()).unwrap()
    }
}

/// A member's number as etcdctl takes it.
fn hex(id: &Value) -> String {
    format!("{:x}", id.as_u64().unwrap())
}

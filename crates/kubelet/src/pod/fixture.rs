//! Pods and runtimes as short data, for the tests of plan and status.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::cri::{
    labels,
    observed::{Container, Observed, Sandbox, State},
};

/// A second of the tests' time.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod with this restart policy and these containers; names that begin with `init-` are init containers, and with
/// `side-` restartable ones.
pub(crate) fn pod(policy: &str, names: &[&str]) -> Pod {
    let container = |name: &&str| {
        let mut container = json!({"name": name, "image": "web:1"});
        if name.starts_with("side-") {
            container["restartPolicy"] = json!("Always");
        }
        container
    };
    let is_init = |name: &&&str| name.starts_with("init-") || name.starts_with("side-");
    let inits: Vec<Value> = names.iter().filter(is_init).map(container).collect();
    let mains: Vec<Value> = names.iter().filter(|n| !is_init(n)).map(container).collect();
    serde_json::from_value(json!({
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u1", "generation": 1},
        "spec": {"restartPolicy": policy, "initContainers": inits, "containers": mains},
    }))
    .unwrap()
}

/// A runtime with one sandbox and these containers, `name=running`, `name=created` or `name=EXITCODE`; newest first.
pub(crate) fn observed(pod: &Pod, containers: &[&str]) -> Observed {
    let sandbox = Sandbox { id: "s0".into(), ready: true, ips: vec!["10.0.0.1".into()], created_at: at(0), ..Default::default() };
    let containers = containers.iter().enumerate().map(|(age, text)| container(pod, text, age)).collect();
    Observed { sandboxes: vec![sandbox], containers }
}

fn container(pod: &Pod, text: &str, age: usize) -> Container {
    let (name, state) = text.split_once('=').unwrap();
    let spec = super::facts::all_containers(pod.spec.as_ref().unwrap()).find(|c| c.name == name).unwrap();
    let older = i32::try_from(age).unwrap();
    let (state, exit_code) = match state {
        "running" => (State::Running, 0),
        "created" => (State::Created, 0),
        code => (State::Exited, code.parse().unwrap()),
    };
    Container {
        id: format!("{name}-{age}"),
        sandbox_id: "s0".into(),
        name: name.into(),
        state,
        exit_code,
        created_at: at(100 - i64::from(older)),
        started_at: Some(at(100 - i64::from(older))),
        finished_at: (state == State::Exited).then(|| at(110 - i64::from(older))),
        image: "web:1".into(),
        image_id: "sha256:1".into(),
        notes: labels::Notes { hash: labels::hash(spec), ..Default::default() },
        ..Default::default()
    }
}

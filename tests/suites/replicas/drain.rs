//! A server that is told to end: who is served to the end, who is sent away, and who is told when.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchParams};
use kube::{Api, Client};
use nix::sys::signal::Signal;
use tests::{Maker, within};

use crate::several::Several;

/// Longer than anything here takes, shorter than the store's client believes in a store that stands still.
const PATIENCE: Duration = Duration::from_secs(10);
const DELAY: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_answers_what_it_let_in_and_sends_others_away() {
    let mut several = Several::on(Maker::Ours);
    restart_with(&mut several, &[("shutdown-delay-duration", "3s"), ("shutdown-send-retry-after", "true")]);
    let client = several.client(1).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let listed = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = maps.watch(&WatchParams::default(), &listed).await.unwrap().boxed();
    let still = Still::stop(several.cluster.pid("store-1"));
    let waiting = tokio::spawn(async move { maps.create(&PostParams::default(), &named("waits")).await });
    within(PATIENCE, "the request waits for the store", || {
        let metrics = several.kubectl(1, &["get", "--raw", "/metrics"]).out;
        let count = metrics.lines().find_map(|line| line.strip_prefix("apiserver_current_inflight_requests{request_kind=\"mutating\"} "));
        if count.is_some_and(|count| count != "0") { Ok(()) } else { Err(metrics) }
    });

    let told = Instant::now();
    several.parts[1].signal(Signal::SIGTERM);
    until(&client, "/readyz/shutdown", 500).await;
    assert!(told.elapsed() < DELAY, "not ready only after {:?}", told.elapsed());
    assert_eq!(ask(&client, "/version").await.status(), 200);
    assert!(told.elapsed() < DELAY, "too slow a machine for this test: {:?}", told.elapsed());

    let refused = until(&client, "/version", 429).await;
    assert!(told.elapsed() >= DELAY, "sent away after {:?} already", told.elapsed());
    let header = |name: &str| refused.headers().get(name).unwrap().to_str().unwrap();
    assert_eq!((header("retry-after"), header("connection"), header("content-type")), ("5", "close", "text/plain; charset=utf-8"));
    assert_eq!(refused.body(), "The apiserver is shutting down, please try again later.\n");
    for (path, code) in [("/livez/ping", 200), ("/metrics", 200), ("/readyz/shutdown", 500)] {
        assert_eq!(ask(&client, path).await.status(), code, "{path}");
    }
    while let Some(event) = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap() {
        event.unwrap();
    }
    assert!(several.parts[1].runs() && !waiting.is_finished());

    drop(still);
    assert_eq!(waiting.await.unwrap().unwrap().metadata.name.unwrap(), "waits");
    several.parts[1].ends();
    assert!(several.parts[1].ended().unwrap().success());
    assert!(told.elapsed() < 3 * PATIENCE, "{:?}", told.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_end_in_good_order_within_their_grace_period() {
    let mut several = Several::on(Maker::Ours);
    let flags = [("shutdown-watch-termination-grace-period", "4s"), ("shutdown-send-retry-after", "true")];
    restart_with(&mut several, &flags);
    let maps: Api<ConfigMap> = Api::namespaced(several.client(1).await, "default");
    let listed = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(maps.watch(&WatchParams::default(), &listed).await.unwrap().boxed());
    }
    let told = Instant::now();
    several.parts[1].signal(Signal::SIGTERM);
    let ends = watches.into_iter().map(|mut watch| async move {
        while let Some(event) = watch.next().await {
            event.unwrap();
        }
        told.elapsed()
    });
    let ends = tokio::time::timeout(2 * PATIENCE, futures::future::join_all(ends)).await.unwrap();
    let (first, last) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
    assert!(*last - *first > Duration::from_secs(1) && *last < PATIENCE, "{ends:?}");
    several.parts[1].ends();
    assert!(several.parts[1].ended().unwrap().success());
}

fn restart_with(several: &mut Several, flags: &[(&str, &str)]) {
    several.parts[1].stop();
    flags.iter().for_each(|(name, value)| several.parts[1].set_flag(name, value));
    several.start(1);
}

/// A process that stands still.
struct Still(nix::unistd::Pid);

impl Still {
    fn stop(pid: i32) -> Self {
        let pid = nix::unistd::Pid::from_raw(pid);
        nix::sys::signal::kill(pid, Signal::SIGSTOP).unwrap();
        Self(pid)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.0, Signal::SIGCONT);
    }
}

fn named(name: &str) -> ConfigMap {
    serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap()
}

/// Asks until the answer has this code.
async fn until(client: &Client, path: &str, code: u16) -> Response<String> {
    let began = Instant::now();
    loop {
        let answer = ask(client, path).await;
        if answer.status() == code {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "{path}: {answer:?}, not {code}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn ask(client: &Client, path: &str) -> Response<String> {
    let request = Request::get(path).body(kube::client::Body::empty()).unwrap();
    let (head, body) = tokio::time::timeout(PATIENCE, client.send(request)).await.unwrap().unwrap().into_parts();
    let bytes = body.collect_bytes().await.unwrap();
    Response::from_parts(head, String::from_utf8(bytes.to_vec()).unwrap())
}

//! Thousands of calls on one connection: each is answered or refused by itself, and the connection goes on.

use std::{collections::BTreeMap, time::Duration};

use etcd::etcdserverpb::{
    PutRequest, WatchCreateRequest, WatchRequest, kv_client::KvClient, watch_client::WatchClient, watch_request::RequestUnion,
};
use tokio::task::JoinSet;
use tonic::{Request, Status, transport::Channel};

use crate::support::{Cluster, Member, eventually, put, within};

const CALLS: usize = 12_000;

/// One connection, which takes any number of answers at once.
fn connection(member: &Member) -> Channel {
    Channel::from_shared(member.url()).unwrap().initial_connection_window_size(64 << 20).connect_lazy()
}

fn request(number: usize) -> PutRequest {
    PutRequest { key: format!("key-{number}").into(), value: "value".into(), ..Default::default() }
}

/// How often which answer came.
async fn answers(mut asked: JoinSet<Result<(), Status>>) -> BTreeMap<String, usize> {
    let mut answers = BTreeMap::new();
    while let Some(answer) = asked.join_next().await {
        let text = answer.unwrap().map_or_else(|status| format!("{:?}: {}", status.code(), status.message()), |()| "done".into());
        *answers.entry(text).or_default() += 1;
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_calls_on_one_connection_are_done_or_refused_one_by_one() {
    let cluster = Cluster::start(1).await;
    let client = KvClient::new(connection(&cluster.members[0]));
    let mut asked = JoinSet::new();
    for number in 0..CALLS {
        let mut client = client.clone();
        asked.spawn(async move { client.put(request(number)).await.map(drop) });
    }
    let mut answers = answers(asked).await;
    let done = answers.remove("done").unwrap_or_default();
    let refused = answers.remove("ResourceExhausted: etcdserver: too many requests").unwrap_or_default();
    assert!(answers.is_empty() && done > 0 && done + refused == CALLS, "{done} done, {refused} refused, {answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_taken_back_end_no_connection() {
    let cluster = Cluster::start(1).await;
    let channel = connection(&cluster.members[0]);
    let create = WatchCreateRequest { key: "watched".into(), ..Default::default() };
    let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let requests = tokio_stream::StreamExt::chain(tokio_stream::iter([create]), tokio_stream::pending());
    let mut events = WatchClient::new(channel.clone()).watch(requests).await.unwrap().into_inner();
    assert!(events.message().await.unwrap().unwrap().created);
    let mut asked = JoinSet::new();
    for number in 0..CALLS {
        let mut client = KvClient::new(channel.clone());
        asked.spawn(async move { client.put(request(number)).await.map(drop) });
        if number % 100 == 99 {
            // They are on their way by now.
            tokio::task::yield_now().await;
            asked.abort_all();
        }
    }
    asked.shutdown().await;
    eventually("a put is taken", async || put(&mut KvClient::new(channel.clone()), "watched", "1").await.ok()).await;
    let event = within(Duration::from_secs(10), events.message()).await.unwrap().unwrap();
    assert_eq!(event.events[0].kv.as_ref().unwrap().value, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_refused_before_they_are_read_end_no_connection() {
    let mut cluster = Cluster::not_started(3).await;
    cluster.members[0].start();
    eventually("it answers", async || cluster.members[0].status().await.ok()).await;
    let channel = connection(&cluster.members[0]);
    let mut asked = JoinSet::new();
    for number in 0..CALLS {
        let mut client = KvClient::new(channel.clone());
        let mut request = Request::new(request(number));
        request.metadata_mut().insert("hasleader", "true".parse().unwrap());
        asked.spawn(async move { client.put(request).await.map(drop) });
    }
    let answers = answers(asked).await;
    assert_eq!(answers, BTreeMap::from([("Unavailable: etcdserver: no leader".to_owned(), CALLS)]));
}

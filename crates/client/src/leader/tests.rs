use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use component::Shutdown;
use http::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::{Config, Election};

/// An API server that lets anyone take the lease, and refuses renewals while `broken`; notes the writes.
fn server(broken: Arc<AtomicBool>, writes: Arc<AtomicUsize>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body): (u16, Value) = match (request.method(), broken.load(Ordering::SeqCst)) {
            (_, true) => (503, json!({"kind": "Status", "status": "Failure", "reason": "ServiceUnavailable", "code": 503})),
            (&Method::GET, false) => (404, json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})),
            (_, false) => {
                writes.fetch_add(1, Ordering::SeqCst);
                (201, json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}))
            }
        };
        let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(response.unwrap()) }
    });
    Client::new(service, "default")
}

fn election(client: Client) -> Election {
    let config = Config {
        namespace: "kube-system".into(),
        name: "l".into(),
        identity: "me".into(),
        lease_duration: Duration::from_millis(300),
        renew_deadline: Duration::from_millis(200),
        retry_period: Duration::from_millis(10),
    };
    Election::new(client, config, None)
}

#[tokio::test]
async fn work_that_does_not_heed_its_token_is_dropped_when_leadership_is_lost() {
    let broken = Arc::new(AtomicBool::new(false));
    let election = election(server(Arc::clone(&broken), Arc::default()));
    let work = |_| async move {
        broken.store(true, Ordering::SeqCst);
        std::future::pending::<()>().await;
    };
    let outcome = tokio::time::timeout(Duration::from_secs(30), election.run(Shutdown::new(), work)).await;
    assert!(outcome.expect("the work goes on").is_err());
}

#[tokio::test]
async fn the_lease_is_kept_up_until_the_work_has_ended_after_a_shutdown() {
    let (writes, shutdown) = (Arc::<AtomicUsize>::default(), Shutdown::new());
    let election = election(server(Arc::default(), Arc::clone(&writes)));
    let stop = shutdown.clone();
    let work = |leading: Shutdown| async move {
        stop.cancel();
        leading.cancelled().await;
        let before = writes.load(Ordering::SeqCst);
        while writes.load(Ordering::SeqCst) < before + 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let outcome = tokio::time::timeout(Duration::from_secs(30), election.run(shutdown, work)).await;
    assert!(outcome.expect("the lease is not renewed").is_ok());
}

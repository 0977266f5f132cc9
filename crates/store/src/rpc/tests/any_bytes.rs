//! Whatever bytes come from a client, they are read as a request or refused, and what was read is done or refused: never a
//! panic.

use std::{sync::Arc, time::Duration};

use etcd::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest, compare::TargetUnion,
    request_op::Request,
};
use proptest::{prelude::*, sample::Index};
use prost::Message;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{
    auth::jwt::{Jwt, Keys},
    command::{Command, Response},
    disk::{Batch, memory::Memory},
    metrics::Frames,
    mvcc::range,
    rpc::{Limits, check, convert},
    state::State,
    url::Url,
};

fn txn() -> TxnRequest {
    let op = |request| RequestOp { request: Some(request) };
    let range = RangeRequest { key: "a".into(), range_end: "z".into(), limit: 3, sort_order: 2, sort_target: 4, ..Default::default() };
    let put = PutRequest { key: "k".into(), value: "v".into(), prev_kv: true, ..Default::default() };
    let delete = DeleteRangeRequest { key: "l".into(), range_end: "m".into(), prev_kv: true };
    let compare = Compare { result: 1, target: 2, key: "k".into(), range_end: "l".into(), target_union: Some(TargetUnion::ModRevision(2)) };
    let success = vec![op(Request::RequestRange(range)), op(Request::RequestPut(put)), op(Request::RequestDeleteRange(delete))];
    let nested = TxnRequest { success: success.clone(), ..Default::default() };
    TxnRequest { compare: vec![compare], failure: vec![op(Request::RequestTxn(nested))], success }
}

/// A request of each kind, encoded.
fn requests() -> Vec<Vec<u8>> {
    let txn = txn();
    let (Some(Request::RequestRange(range)), Some(Request::RequestPut(put))) = (&txn.success[0].request, &txn.success[1].request) else {
        panic!("as they were made")
    };
    let create = WatchCreateRequest { key: "a".into(), range_end: "\0".into(), filters: vec![0, 1], ..Default::default() };
    vec![range.encode_to_vec(), put.encode_to_vec(), txn.encode_to_vec(), create.encode_to_vec()]
}

/// Any bytes, and such as nearly are a request.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<Index>(), prop_oneof![any::<u8>(), Just(0xff), Just(0)]);
    let near = (any::<Index>(), prop::collection::vec(change, 1..4)).prop_map(|(which, changes)| {
        let requests = requests();
        let mut request = requests[which.index(requests.len())].clone();
        for (at, with) in changes {
            let at = at.index(request.len());
            request[at] = with;
        }
        request
    });
    prop_oneof![1 => prop::collection::vec(any::<u8>(), 0..200), 4 => near]
}

/// Does what a request asks for, as its service would; how many of the kinds it was read as.
fn serve(state: &State, bytes: &[u8]) -> usize {
    let mut served = 0;
    if let Ok(range) = RangeRequest::decode(bytes).map(convert::range)
        && check::range(&range).is_ok()
        && let Ok(found) = state.read(|read, revisions| range::range(read, revisions, &range)).unwrap()
    {
        served += 1;
        let _ = convert::range_response(found, None).encoded_len();
    }
    let put = PutRequest::decode(bytes).ok().map(convert::put).filter(|put| check::put(put).is_ok()).map(Command::Put);
    let delete = DeleteRangeRequest::decode(bytes).ok().map(convert::delete_range);
    let delete = delete.filter(|delete| check::delete_range(delete).is_ok()).map(Command::DeleteRange);
    let txn = TxnRequest::decode(bytes).ok().map(convert::txn).filter(|txn| check::txn(txn, &Limits::default()).is_ok()).map(Command::Txn);
    for command in [put, delete, txn].into_iter().flatten() {
        let command = Command::from_bytes(command.into_bytes()).unwrap();
        for outcome in state.apply(&[command], Batch::default()).unwrap() {
            served += 1;
            if let Ok(Response::Txn(response)) = outcome.result {
                let _ = convert::txn_response(response, None, outcome.revision).map(|response| response.encoded_len());
            }
        }
    }
    served
}

fn state() -> Arc<State> {
    State::open(Arc::new(Memory::new()), Arc::new(|| Duration::ZERO)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_of_a_client_are_served_or_refused_without_a_panic(requests in prop::collection::vec(bytes(), 1..4)) {
        let state = state();
        for bytes in requests {
            serve(&state, &bytes);
            let _ = WatchRequest::decode(&bytes[..]);
        }
    }

    #[test]
    fn any_token_any_certificate_and_any_address_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), text in "\\PC{0,60}") {
        let keys = Keys { public: None, private: Some(b"secret") };
        let jwt = Jwt::new(jsonwebtoken::Algorithm::HS256, keys, Duration::from_secs(60)).unwrap();
        prop_assert!(jwt.verify(&text, Duration::ZERO).is_none());
        let forged = format!("eyJhbGciOiJIUzI1NiJ9.{text}.{text}");
        prop_assert!(jwt.verify(&forged, Duration::ZERO).is_none());
        let _ = (X509Certificate::from_der(&bytes), text.parse::<Url>(), format!("http://{text}").parse::<Url>());
        let keys = Keys { public: Some(&bytes), private: None };
        prop_assert!(Jwt::new(jsonwebtoken::Algorithm::RS256, keys, Duration::ZERO).is_err());
    }

    #[test]
    fn any_body_is_counted_without_a_panic(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
        let mut frames = Frames::default();
        let seen: u64 = parts.iter().map(|part| frames.see(part).1).sum();
        prop_assert!(seen <= parts.iter().map(Vec::len).sum::<usize>() as u64);
    }
}

#[test]
fn the_requests_are_served_as_what_they_are() {
    let state = state();
    let served: Vec<_> = requests().iter().map(|request| serve(&state, request)).collect();
    assert!(served[..3].iter().all(|served| *served > 0), "{served:?}");
    assert!(state.read(|_, revisions| revisions.current).unwrap() >= 3, "a put and a transaction at least");
}

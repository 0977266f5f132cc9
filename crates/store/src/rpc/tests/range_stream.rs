//! Ranges in pieces.

use super::local::{Served, authenticator, serve};
use crate::rpc::{Context, Limits, convert, identity::Credentials, range_stream};
use etcd::etcdserverpb::{CompactionRequest, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, kv_client::KvClient};
use futures::StreamExt;
use tonic::Code;

fn everything() -> RangeRequest {
    RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() }
}

async fn fill(served: &Served, keys: usize, value: usize) {
    for number in 0..keys {
        let request = PutRequest { key: format!("k{number:04}").into(), value: vec![7; value].into(), ..Default::default() };
        served.client.put(request).await.unwrap();
    }
}

async fn pieces(served: &Served, request: RangeRequest) -> Vec<RangeResponse> {
    let mut client = KvClient::connect(served.url.clone()).await.unwrap().max_decoding_message_size(64 << 20);
    let mut stream = client.range_stream(request).await.unwrap().into_inner();
    let mut pieces = Vec::new();
    while let Some(piece) = stream.message().await.unwrap() {
        pieces.push(piece.range_response.unwrap());
    }
    pieces
}

/// Merged as protobuf merges: lists are joined, what is set later wins.
fn merged(pieces: Vec<RangeResponse>) -> RangeResponse {
    pieces.into_iter().fold(RangeResponse::default(), |mut all, piece| {
        all.kvs.extend(piece.kvs);
        RangeResponse { header: piece.header.or(all.header), more: piece.more || all.more, count: piece.count.max(all.count), ..all }
    })
}

#[tokio::test]
async fn all_pieces_merged_are_the_answer_to_range() {
    let served = serve(Limits::default()).await;
    fill(&served, 137, 10).await;
    for request in [
        everything(),
        RangeRequest { limit: 45, ..everything() },
        RangeRequest { limit: 137, ..everything() },
        RangeRequest { keys_only: true, ..everything() },
        RangeRequest { count_only: true, ..everything() },
        RangeRequest { revision: 60, ..everything() },
        RangeRequest { revision: 60, limit: 20, ..everything() },
        RangeRequest { range_end: Default::default(), key: "k0007".into(), ..everything() },
        RangeRequest { key: "x".into(), ..everything() },
    ] {
        let expected = served.client.range(request.clone()).await.unwrap();
        let pieces = pieces(&served, request.clone()).await;
        let (last, others) = pieces.split_last().unwrap();
        assert!(last.header.is_some() && others.iter().all(|piece| piece.header.is_none() && piece.count == 0 && !piece.more));
        assert_eq!(merged(pieces), expected, "{request:?}");
    }
}

#[tokio::test]
async fn no_piece_is_much_larger_than_a_request_may_be() {
    let served = serve(Limits { request_bytes: 100_000, ..Limits::default() }).await;
    fill(&served, 300, 2_000).await;
    let pieces = pieces(&served, everything()).await;
    let sizes: Vec<_> = pieces.iter().map(prost::Message::encoded_len).collect();
    assert!(sizes.iter().all(|size| *size < 200_000), "{sizes:?}");
    assert!(pieces.len() < 20, "{sizes:?}");
}

#[tokio::test]
async fn what_is_written_meanwhile_is_not_seen_and_what_is_compacted_ends_it() {
    let served = serve(Limits::default()).await;
    fill(&served, 100, 10).await;
    let context = Context::new(served.node.clone(), Limits::default(), authenticator());
    let begin = || range_stream::stream(context.clone(), Credentials::default(), convert::range(everything()));
    let mut stream = begin();
    let first = stream.next().await.unwrap().unwrap().range_response.unwrap();
    assert_eq!(first.kvs.len(), 10);
    let delete = DeleteRangeRequest { key: "k0050".into(), range_end: "k0060".into(), ..Default::default() };
    served.client.delete_range(delete).await.unwrap();
    fill(&served, 200, 10).await;
    let rest: Vec<_> = stream.map(|piece| piece.unwrap().range_response.unwrap()).collect().await;
    let all = merged([vec![first], rest].concat());
    assert_eq!((all.count, all.kvs.len(), all.header.unwrap().revision), (100, 100, 101));
    let mut stream = begin();
    stream.next().await.unwrap().unwrap();
    fill(&served, 1, 10).await;
    served.client.compact(CompactionRequest { revision: 303, physical: false }).await.unwrap();
    let ended = stream.next().await.unwrap().unwrap_err();
    assert_eq!((ended.code(), ended.message()), (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"));
}

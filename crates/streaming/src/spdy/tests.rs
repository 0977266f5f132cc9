use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::{
    Connection, Headers, Options, Role, Stream,
    frame::{self, Frame, HEAD, Head},
    headers::{Compressor, Decompressor},
};

const WIRE: usize = 16 * 1024;

fn pair() -> (Connection, Connection) {
    let (near, far) = duplex(WIRE);
    (Connection::new(near, Role::Client, Options::default()), Connection::new(far, Role::Server, Options::default()))
}

async fn opened(client: &Connection, server: &mut Connection, kind: &str) -> (Stream, Stream) {
    let (ours, theirs) = tokio::join!(client.open(Headers::new([("streamType", kind)])), server.accept());
    (ours.unwrap(), theirs.unwrap())
}

async fn all(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Vec<u8> {
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    read
}

#[tokio::test]
async fn a_stream_carries_its_headers_and_ends_half_by_half() {
    let (client, mut server) = pair();
    let (mut ours, mut theirs) = opened(&client, &mut server, "stdin").await;
    assert_eq!((theirs.headers().get("streamtype"), theirs.id()), (Some("stdin"), 1));
    ours.write_all(b"question").await.unwrap();
    ours.shutdown().await.unwrap();
    assert_eq!(all(&mut theirs).await, b"question");
    theirs.write_all(b"answer").await.unwrap();
    theirs.shutdown().await.unwrap();
    assert_eq!(all(&mut ours).await, b"answer");
    assert!(ours.write_all(b"more").await.is_err());
}

#[tokio::test]
async fn far_more_than_a_window_goes_both_ways_at_once() {
    let (client, mut server) = pair();
    let (ours, theirs) = opened(&client, &mut server, "data").await;
    let data: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    let echo = tokio::spawn(async move {
        let (mut from, mut to) = theirs.into_split();
        tokio::io::copy(&mut from, &mut to).await.unwrap()
    });
    let (mut from, mut to) = ours.into_split();
    let sent = data.clone();
    let send = tokio::spawn(async move { to.write_all(&sent).await.unwrap() });
    assert!(all(&mut from).await == data);
    send.await.unwrap();
    assert_eq!(echo.await.unwrap(), 3 << 20);
}

/// Writes until nothing moves any more; yields how much.
async fn written_until_held_back(stream: &mut Stream) -> usize {
    let (mut written, mut waited) = (0, 0);
    while waited < 1000 && written < 8 << 20 {
        match stream.write(&[0; 1024]).now_or_never() {
            Some(count) => (written, waited) = (written + count.unwrap(), 0),
            None => waited += 1,
        }
        tokio::task::yield_now().await;
    }
    written
}

#[tokio::test]
async fn a_reader_far_behind_holds_the_writer_back() {
    let (client, mut server) = pair();
    let (mut ours, mut theirs) = opened(&client, &mut server, "data").await;
    let written = written_until_held_back(&mut ours).await;
    assert!(written < 1 << 20, "{written} bytes went to nobody");
    ours.shutdown().await.unwrap();
    assert_eq!(all(&mut theirs).await.len(), written);
}

#[tokio::test]
async fn a_stream_nobody_reads_any_more_is_no_hindrance() {
    let (client, mut server) = pair();
    let (mut dropped, theirs) = opened(&client, &mut server, "data").await;
    let (mut kept, mut other) = opened(&client, &mut server, "data").await;
    drop(theirs);
    while dropped.write_all(&[0; 64 * 1024]).await.is_ok() {}
    kept.write_all(b"still here").await.unwrap();
    kept.shutdown().await.unwrap();
    assert_eq!(all(&mut other).await, b"still here");
}

#[tokio::test]
async fn what_was_written_before_closing_arrives() {
    let (client, mut server) = pair();
    let (mut ours, mut theirs) = opened(&client, &mut server, "stdout").await;
    let data = vec![7; 200 * 1024];
    let sent = data.clone();
    let closing = tokio::spawn(async move {
        theirs.write_all(&sent).await.unwrap();
        server.close().await;
    });
    assert_eq!(all(&mut ours).await, data);
    drop(client);
    closing.await.unwrap();
}

#[tokio::test]
async fn a_connection_cut_off_is_no_end_of_its_streams() {
    let (near, mut far) = duplex(WIRE);
    let mut server = Connection::new(near, Role::Server, Options::default());
    far.write_all(&syn(&mut Compressor::new(), 1)).await.unwrap();
    let mut stream = server.accept().await.unwrap();
    drop(far);
    assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert!(server.accept().await.is_none());
    server.ended().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_whatever_it_pings() {
    let (near, far) = duplex(WIRE);
    let _client = Connection::new(far, Role::Client, Options { idle: None, ping: Some(Duration::from_millis(1)) });
    let server = Connection::new(near, Role::Server, Options { idle: Some(Duration::from_millis(20)), ping: None });
    server.ended().await;
}

#[tokio::test]
async fn a_peer_that_leaves_while_it_is_held_back_is_found_out_by_a_ping() {
    let (near, mut far) = duplex(WIRE);
    let mut server = Connection::new(near, Role::Server, Options { idle: None, ping: Some(Duration::from_millis(1)) });
    far.write_all(&syn(&mut Compressor::new(), 1)).await.unwrap();
    let _nobody_reads = server.accept().await.unwrap();
    let data = [&[0, 0, 0, 1, 0, 0x10, 0, 0][..], &[0; 0x10_0000]].concat();
    while far.write(&data).now_or_never().is_some() {
        tokio::task::yield_now().await;
    }
    drop(far);
    server.ended().await;
}

#[tokio::test]
async fn a_client_pings_with_odd_numbers() {
    let (near, mut far) = duplex(WIRE);
    let _client = Connection::new(near, Role::Client, Options { idle: None, ping: Some(Duration::from_millis(1)) });
    for id in [3, 5, 7] {
        assert_eq!(next_frame(&mut far, &mut Decompressor::new()).await, Frame::Ping(id));
    }
}

fn syn(deflate: &mut Compressor, stream: u32) -> Vec<u8> {
    let headers = Headers::new([("streamType", "error")]);
    Frame::SynStream { stream, associated: 0, fin: false, unidirectional: false, headers }.encode(deflate).unwrap()
}

async fn next_frame(io: &mut DuplexStream, inflate: &mut Decompressor) -> Frame {
    let mut head = [0; HEAD];
    io.read_exact(&mut head).await.unwrap();
    match Head::parse(head).unwrap() {
        Head::Data { stream, fin, length } => {
            let mut data = vec![0; length];
            io.read_exact(&mut data).await.unwrap();
            Frame::Data { stream, fin, bytes: Bytes::from(data) }
        }
        Head::Control { kind, flags, length } => {
            let mut payload = vec![0; length];
            io.read_exact(&mut payload).await.unwrap();
            frame::control(kind, flags, &payload, inflate).unwrap().unwrap()
        }
    }
}

#[tokio::test]
async fn frames_go_in_the_order_upstreams_library_expects() {
    let (near, mut far) = duplex(WIRE);
    let mut server = Connection::new(near, Role::Server, Options::default());
    let (mut deflate, mut inflate) = (Compressor::new(), Decompressor::new());
    far.write_all(&Frame::Ping(1).encode(&mut deflate).unwrap()).await.unwrap();
    assert_eq!(next_frame(&mut far, &mut inflate).await, Frame::Ping(1));
    far.write_all(&syn(&mut deflate, 1)).await.unwrap();
    let mut stream = server.accept().await.unwrap();
    stream.write_all(b"x").await.unwrap();
    let reply = Frame::SynReply { stream: 1, fin: false, headers: Headers::default() };
    assert_eq!(next_frame(&mut far, &mut inflate).await, reply);
    let data = |bytes: &'static [u8], fin| Frame::Data { stream: 1, fin, bytes: Bytes::from_static(bytes) };
    assert_eq!(next_frame(&mut far, &mut inflate).await, data(b"x", false));
    stream.shutdown().await.unwrap();
    assert_eq!(next_frame(&mut far, &mut inflate).await, data(b"", true));
    let closing = tokio::spawn(server.close());
    assert_eq!(next_frame(&mut far, &mut inflate).await, Frame::RstStream { stream: 1, status: 5 });
    assert_eq!(next_frame(&mut far, &mut inflate).await, Frame::GoAway { last: 1, status: 0 });
    drop(far);
    closing.await.unwrap();
}

#[tokio::test]
async fn a_stream_with_a_number_out_of_order_is_reset() {
    let (near, mut far) = duplex(WIRE);
    let mut server = Connection::new(near, Role::Server, Options::default());
    let (mut deflate, mut inflate) = (Compressor::new(), Decompressor::new());
    for stream in [5, 2, 3, 7] {
        far.write_all(&syn(&mut deflate, stream)).await.unwrap();
    }
    assert_eq!((server.accept().await.unwrap().id(), server.accept().await.unwrap().id()), (5, 7));
    let mut refused = Vec::new();
    while refused.len() < 2 {
        if let Frame::RstStream { stream, status: 1 } = next_frame(&mut far, &mut inflate).await {
            refused.push(stream);
        }
    }
    assert_eq!(refused, [2, 3]);
}

/// A peer that sends whatever it likes, some of it well formed.
fn sent() -> impl Strategy<Value = Vec<u8>> {
    let garbage = proptest::collection::vec(any::<u8>(), 0..40);
    let control = (0_u16..11, any::<u8>(), garbage.clone()).prop_map(|(kind, flags, payload)| {
        let length = u32::try_from(payload.len()).unwrap() | u32::from(flags) << 24;
        [&[0x80, 3][..], &kind.to_be_bytes(), &length.to_be_bytes(), &payload].concat()
    });
    let data = (1_u32..9, any::<bool>(), garbage.clone()).prop_map(|(stream, fin, payload)| {
        let length = u32::try_from(payload.len()).unwrap() | u32::from(fin) << 24;
        [&stream.to_be_bytes()[..], &length.to_be_bytes(), &payload].concat()
    });
    let opening = proptest::collection::vec(1_u32..9, 0..5).prop_map(|streams| {
        let mut deflate = Compressor::new();
        streams.into_iter().flat_map(|stream| syn(&mut deflate, stream)).collect::<Vec<u8>>()
    });
    let parts = proptest::collection::vec(prop_oneof![4 => data, 2 => control, 1 => garbage], 0..20);
    (opening, parts).prop_map(|(opening, parts)| [opening, parts.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_peer_makes_a_connection_panic_or_hang(bytes in sent(), as_server: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (near, mut far) = duplex(WIRE);
            let role = if as_server { Role::Server } else { Role::Client };
            let mut connection = Connection::new(near, role, Options::default());
            let peer = tokio::spawn(async move {
                let _ = far.write_all(&bytes).await;
                let _ = far.shutdown().await;
                let mut said = Vec::new();
                let _ = far.read_to_end(&mut said).await;
            });
            while let Some(mut stream) = connection.accept().await {
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    let _ = stream.read_to_end(&mut read).await;
                });
            }
            connection.close().await;
            peer.await.unwrap();
        });
    }
}

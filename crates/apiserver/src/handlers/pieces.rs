//! Lists of stored bytes, strung together while they are sent: a list of a hundred thousand objects takes no memory of its own.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::storage::Entry;

/// Sent at once: large enough to cost little, small enough to be nothing.
const CHUNK: usize = 64 * 1024;
const END: &[u8] = b"]}\n";

/// What is shown of each object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    /// All but the type: built-in kinds leave it out in lists.
    Item,
    /// All.
    Typed,
    /// The metadata, as a `PartialObjectMetadata` of this version of `meta.k8s.io`.
    Metadata(&'static str),
}

impl Piece {
    fn head(self) -> String {
        match self {
            Self::Item => "{".to_owned(),
            Self::Typed => String::new(),
            Self::Metadata(version) => format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/{version}","metadata":"#),
        }
    }

    fn of(self, entry: &Entry) -> &[u8] {
        match self {
            Self::Item => entry.item_json(),
            Self::Typed => entry.json(),
            Self::Metadata(_) => entry.metadata_json(),
        }
    }

    fn tail(self) -> &'static [u8] {
        match self {
            Self::Item | Self::Typed => b"",
            Self::Metadata(_) => b"}",
        }
    }
}

/// The body of a list: `head` up to and with the bracket that opens the items.
pub(super) fn body(head: String, piece: Piece, entries: Vec<Entry>) -> Body {
    let mut pieces = Pieces::new(head, piece, entries);
    if pieces.left <= CHUNK { Body::from(pieces.next()) } else { Body::new(pieces) }
}

struct Pieces {
    piece: Piece,
    /// Of each item, and before the first one of all.
    item_head: String,
    list_head: Option<String>,
    entries: std::vec::IntoIter<Entry>,
    /// Bytes still to come.
    left: usize,
}

impl Pieces {
    fn new(head: String, piece: Piece, entries: Vec<Entry>) -> Self {
        let item_head = piece.head();
        let around = item_head.len() + piece.tail().len();
        let items: usize = entries.iter().map(|entry| around + piece.of(entry).len()).sum();
        let left = head.len() + items + entries.len().saturating_sub(1) + END.len();
        Self { piece, item_head, list_head: Some(head), entries: entries.into_iter(), left }
    }

    /// The next chunk; empty when there is nothing more.
    fn next(&mut self) -> Bytes {
        if self.left == 0 {
            return Bytes::new();
        }
        let mut out = Vec::with_capacity(self.left.min(CHUNK + CHUNK / 4));
        let mut separator: &[u8] = b",";
        if let Some(head) = self.list_head.take() {
            out.extend_from_slice(head.as_bytes());
            separator = b"";
        }
        while out.len() < CHUNK {
            let Some(entry) = self.entries.next() else {
                out.extend_from_slice(END);
                break;
            };
            for part in [separator, self.item_head.as_bytes(), self.piece.of(&entry), self.piece.tail()] {
                out.extend_from_slice(part);
            }
            separator = b",";
        }
        self.left = self.left.saturating_sub(out.len());
        out.into()
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.get_mut().next();
        Poll::Ready((!chunk.is_empty()).then(|| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::gvk::GroupResource;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::storage::{Collection, Key};

    fn entries(count: usize) -> Vec<Entry> {
        let collection = Collection::new(GroupResource::new("", "configmaps"), "/registry/configmaps");
        let entry = |at: usize| {
            let stored = format!(
                r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"a-{at}","annotations":{{"brace":"\"}}{{"}}}},"data":{{"fill":"{}"}}}}"#,
                "x".repeat(at % 1000)
            );
            Entry::from_stored(&collection, Key::new("n", format!("a-{at}")), stored.as_bytes(), 7).unwrap()
        };
        (0..count).map(entry).collect()
    }

    async fn sent(piece: Piece, count: usize) -> Value {
        let body = body(r#"{"kind":"List","items":["#.to_owned(), piece, entries(count));
        let promised = http_body::Body::size_hint(&body).exact().unwrap();
        let bytes = body.collect().await.unwrap().to_bytes();
        assert_eq!(bytes.len() as u64, promised);
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn a_list_is_as_long_as_it_says_and_whole_however_many_chunks_it_takes() {
        for count in [0, 1, 2, 100, 1000] {
            let list = sent(Piece::Item, count).await;
            let names: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()).collect();
            assert_eq!(names, (0..count).map(|at| json!(format!("a-{at}"))).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn each_piece_shows_what_it_is_to_show() {
        let metadata = json!({"name": "a-0", "resourceVersion": "7", "annotations": {"brace": "\"}{"}});
        assert_eq!(sent(Piece::Item, 1).await["items"][0], json!({"metadata": metadata, "data": {"fill": ""}}));
        assert_eq!(sent(Piece::Typed, 1).await["items"][0]["kind"], "ConfigMap");
        let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        assert_eq!(sent(Piece::Metadata("v1"), 900).await["items"][0], partial);
    }
}

//! Watches: one line of JSON, one frame of protobuf or one item of CBOR per event, or a message of a WebSocket, until the client goes, time
//! is up or history is gone.

use std::{sync::Arc, time::Duration};

use apimachinery::{Object, status::Status};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderValue, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use streaming::websocket::{self, Marking};
use tokio::time::Instant;

use super::{
    Ask,
    list::{predicate, revision, unexpected},
    options,
    shape::{Include, row, table},
};
use crate::{
    cbor,
    negotiate::{Form, Format, partial, watch_types},
    protobuf,
    registry::{Resource, go_on, store::Store},
    request::is_true,
    storage::{self, Event, Verb, WatchItem, WatchOptions, WatchStart},
};

/// The annotation of the bookmark that closes the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// How long a watch of a resource that is served no more goes on: the last events may still be under way.
const LAST_EVENTS: Duration = Duration::from_millis(500);

pub(super) async fn serve(ask: Ask) -> Result<Response, Status> {
    if ask.negotiated.format == Format::Yaml {
        return Err(Status::not_acceptable(watch_types(ask.server.cbor)));
    }
    let query = options::list(&ask.query, true)?;
    let store = ask.store()?;
    let options = watch_options(&ask, &query)?;
    let events = store.watch(&ask.ctx, options).await?;
    let until = Instant::now() + lifetime(&ask, query.timeout_seconds);
    let (stopped, retired) = (ask.server.lifecycle.watch_ends(), ask.served.retired.clone());
    let running = ask.server.lifecycle.watches.token();
    let mut encoder = Encoder::new(&ask, store)?;
    let content_type = encoder.content_type();
    let ended = async move {
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = stopped => {}
            () = async { retired.cancelled().await; tokio::time::sleep(LAST_EVENTS).await } => {}
        }
    };
    let frames = events.take_until(Box::pin(ended)).map(move |item| {
        let _ = &running;
        encoder.frame(item)
    });
    // An error is the last event of a watch.
    let frames = frames.scan(false, |done, (bytes, last)| {
        let out = (!*done).then_some(bytes);
        *done |= last;
        std::future::ready(out)
    });
    let mut response = match websocket::is_websocket(ask.headers()) {
        true => over_websocket(ask, frames)?,
        false => Response::new(Body::from_stream(frames.map(Ok::<_, std::convert::Infallible>))),
    };
    if response.status().is_client_error() {
        return Ok(response);
    }
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

/// Each event as a message of its own: JSON in text, all else in bytes, where nothing has to tell how long it is.
fn over_websocket(mut ask: Ask, frames: impl Stream<Item = Bytes> + Send + 'static) -> Result<Response, Status> {
    let mut response = match websocket::accept_any(ask.headers()) {
        Ok(switched) => switched.map(|()| Body::empty()),
        Err(refused) => return Ok(refused.map(Body::from)),
    };
    let switching = ask.parts.extensions.remove::<OnUpgrade>();
    let switching = switching.ok_or_else(|| Status::internal("unable to upgrade: unable to hijack response"))?;
    let (marking, skipped) = match ask.negotiated.format {
        Format::Json | Format::Yaml => (Marking::Text, 0),
        Format::Protobuf => (Marking::Binary, protobuf::FRAME_HEAD),
        Format::Cbor => (Marking::Binary, 0),
    };
    go_on(&mut response, async move {
        match switching.await {
            Ok(client) => websocket::feed(TokioIo::new(client), marking, frames.map(|frame| frame.slice(skipped.min(frame.len())..))).await,
            Err(error) => tracing::debug!(%error, "a watch could not take its WebSocket"),
        }
    });
    Ok(response)
}

/// What the query asks of storage.
fn watch_options(ask: &Ask, query: &options::ListQuery) -> Result<WatchOptions, Status> {
    let mut predicate = predicate(ask)?;
    if !ask.ctx.info.is_collection {
        // The old /watch/ paths name one object.
        let name = ask.ctx.info.name.as_str();
        if predicate.fields.is_empty() {
            predicate.fields = apimachinery::selector::field::Selector::equal("metadata.name", name);
        } else if predicate.fields.exact_match("metadata.name") != Some(name) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
    }
    let start = match query.resource_version.as_str() {
        "" => WatchStart::Latest,
        "0" => WatchStart::Any,
        version => WatchStart::After(revision(version).map_err(unexpected)?),
    };
    // Who asks for the state as it always was asked for also learns where it ends, if bookmarks are welcome.
    let by_tradition = !matches!(start, WatchStart::After(_)) && ask.query("watch").is_some_and(is_true);
    let initial_events = query.initial_events.or(by_tradition.then_some(true));
    Ok(WatchOptions { start, initial_events, bookmarks: query.bookmarks, predicate })
}

/// As asked for, else `--min-request-timeout` and up to twice that, so that watches do not all end together.
fn lifetime(ask: &Ask, seconds: Option<u64>) -> Duration {
    match seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
        _ => ask.server.min_request_timeout.mul_f64(1.0 + rand::random::<f64>()),
    }
}

/// Encodes items in one form.
struct Encoder {
    store: Store,
    resource: Arc<Resource>,
    format: Format,
    form: Form,
    /// Tells this encoding from others of the same event.
    name: String,
    include: Include,
    as_stored: bool,
    /// Columns go with the first event only.
    columns_sent: bool,
    now: Box<dyn Fn() -> jiff::Timestamp + Send>,
}

impl Encoder {
    fn new(ask: &Ask, store: Store) -> Result<Self, Status> {
        let clock = ask.server.clock.clone();
        let (format, form) = (ask.negotiated.format, ask.negotiated.form);
        Ok(Self {
            as_stored: format == Format::Json && form == Form::Object && store.bytes_as_stored(),
            name: format!("{format:?} {form:?} {:?}", ask.served.resource),
            resource: ask.served.resource.clone(),
            format,
            form,
            include: Include::of(ask)?,
            columns_sent: false,
            now: Box::new(move || clock.now()),
            store,
        })
    }

    fn content_type(&self) -> HeaderValue {
        HeaderValue::from_static(match self.format {
            Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            Format::Cbor => "application/cbor-seq",
            Format::Json | Format::Yaml => "application/json",
        })
    }

    /// The bytes of one item, and whether it is the last.
    fn frame(&mut self, item: storage::Result<WatchItem>) -> (Bytes, bool) {
        let encoded = match item {
            Ok(WatchItem::Event(event)) => self.event(&event),
            Ok(WatchItem::Bookmark { revision, initial_events_end }) => self.bookmark(revision, initial_events_end),
            Err(error) => Err(error.into_status(Verb::Watch, &self.resource.group_resource(), "")),
        };
        match encoded {
            Ok(bytes) => (bytes, false),
            // A Status can be encoded in any format.
            Err(status) => (self.encode("ERROR", &serde_json::to_value(&status).unwrap_or_default()).unwrap_or_default(), true),
        }
    }

    fn event(&mut self, event: &Event) -> Result<Bytes, Status> {
        if self.as_stored {
            return Ok(event.frame());
        }
        if let Form::Table(_) = self.form {
            // Ages differ by the time of sending, columns by place in the stream: encoded per watch.
            let value = self.shape(&self.store.present(event.entry())?);
            self.columns_sent = true;
            return self.encode(event.kind.as_str(), &value);
        }
        event.encoded(&self.name, |event| self.encode(event.kind.as_str(), &self.shape(&self.store.present(event.entry())?)))
    }

    fn bookmark(&mut self, revision: u64, initial_events_end: bool) -> Result<Bytes, Status> {
        let mut object = Object::new(&self.resource.gvk());
        object.set_resource_version(&revision.to_string());
        if initial_events_end {
            object.set_annotation(INITIAL_EVENTS_END, "true");
        }
        let value = match self.form {
            Form::Table(version) => {
                let strategy = &*self.resource.strategy;
                let rows = vec![row(strategy, &object, (self.now)(), self.include, version)];
                table(strategy, version, json!({"resourceVersion": revision.to_string()}), rows, !self.columns_sent)
            }
            _ => self.shape(&object),
        };
        self.encode("BOOKMARK", &value)
    }

    fn encode(&self, kind: &str, object: &Value) -> Result<Bytes, Status> {
        match self.format {
            Format::Protobuf => return Ok(protobuf::event(kind, &protobuf::encode(object)?).into()),
            Format::Cbor => return Ok(cbor::event(kind, &cbor::encode(object)).into()),
            Format::Json | Format::Yaml => {}
        }
        let mut out = json!({"type": kind, "object": object}).to_string();
        out.push('\n');
        Ok(out.into())
    }

    fn shape(&self, object: &Object) -> Value {
        match self.form {
            Form::Object => object.value(),
            Form::Partial(version) | Form::PartialList(version) => partial(object, version),
            Form::Table(version) => {
                let strategy = &*self.resource.strategy;
                let rows = vec![row(strategy, object, (self.now)(), self.include, version)];
                table(strategy, version, json!({"resourceVersion": object.resource_version()}), rows, !self.columns_sent)
            }
        }
    }
}

//! The streams of a connection, and who may still send on each.

use std::{collections::HashMap, io, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{
    Role,
    frame::{Frame, reset},
};
use crate::{inbox::Inlet, outbox::Outbox};

/// Streams open at once; further ones are refused. A forwarded port takes two a connection.
const MOST_STREAMS: usize = 1024;

/// What a connection's handle, its streams and its driver share.
pub(super) struct Shared {
    pub(super) role: Role,
    pub(super) outbox: Outbox<Frame>,
    pub(super) table: Mutex<Table>,
}

pub(super) struct Table {
    streams: HashMap<u32, Entry>,
    next: u32,
    /// The last stream accepted of the peer.
    pub(super) last: u32,
    /// One of both goes away: no further streams.
    pub(super) going: bool,
    /// This side has said that it goes.
    closed: bool,
}

struct Entry {
    /// `None`: the peer will send no more.
    inlet: Option<Inlet>,
    /// Told once the peer has replied to the stream's opening.
    replied: Option<oneshot::Sender<()>>,
    /// Nothing more will be sent here.
    sent_all: bool,
}

impl Table {
    pub(super) fn new(role: Role) -> Self {
        let next = if role == Role::Client { 1 } else { 2 };
        Self { streams: HashMap::new(), next, last: 0, going: false, closed: false }
    }

    /// A number for a stream that is opened here. `None`: the connection goes, or has used all.
    pub(super) fn open(&mut self, inlet: Inlet, replied: oneshot::Sender<()>) -> Option<u32> {
        if self.going || self.next >> 31 == 1 || self.streams.len() >= MOST_STREAMS {
            return None;
        }
        let id = self.next;
        self.next += 2;
        self.streams.insert(id, Entry { inlet: Some(inlet), replied: Some(replied), sent_all: false });
        Some(id)
    }

    /// Takes a stream the peer opened. Errors: the status to reset it with.
    pub(super) fn accept(&mut self, role: Role, id: u32, inlet: Option<Inlet>, unidirectional: bool) -> Result<(), u32> {
        let parity = if role == Role::Client { 0 } else { 1 };
        if id % 2 != parity || id <= self.last {
            return Err(reset::PROTOCOL_ERROR);
        }
        if self.going || self.streams.len() >= MOST_STREAMS {
            return Err(reset::REFUSED_STREAM);
        }
        self.last = id;
        self.streams.insert(id, Entry { inlet, replied: None, sent_all: unidirectional });
        Ok(())
    }

    pub(super) fn inlet(&self, id: u32) -> Option<Inlet> {
        self.streams.get(&id)?.inlet.clone()
    }

    pub(super) fn replied(&mut self, id: u32) {
        if let Some(replied) = self.streams.get_mut(&id).and_then(|entry| entry.replied.take()) {
            let _ = replied.send(());
        }
    }

    /// The peer has sent all of a stream.
    pub(super) fn received_all(&mut self, id: u32) {
        let Some(entry) = self.streams.get_mut(&id) else { return };
        entry.inlet = None;
        if entry.sent_all {
            self.streams.remove(&id);
        }
    }

    /// The peer has reset a stream.
    pub(super) fn reset(&mut self, id: u32, status: u32) {
        let Some(entry) = self.streams.remove(&id) else { return };
        // A server that is done cancels all its streams, after all it had to say.
        if let Some(inlet) = entry.inlet.filter(|_| status != reset::CANCEL) {
            inlet.fail(io::ErrorKind::ConnectionReset);
        }
    }

    /// Whether more may be sent on a stream.
    pub(super) fn may_send(&self, id: u32) -> bool {
        self.streams.get(&id).is_some_and(|entry| !entry.sent_all)
    }

    /// Ends all streams; `failure` is what their readers get who wait for more.
    pub(super) fn end(&mut self, failure: Option<io::ErrorKind>) {
        self.going = true;
        for (_, entry) in self.streams.drain() {
            if let (Some(inlet), Some(kind)) = (entry.inlet, failure) {
                inlet.fail(kind);
            }
        }
    }
}

impl Shared {
    /// Nothing more will be sent on a stream: tells the peer.
    pub(super) fn sent_all(&self, id: u32) {
        let mut table = self.table.lock();
        let Some(entry) = table.streams.get_mut(&id).filter(|entry| !entry.sent_all) else { return };
        entry.sent_all = true;
        if entry.inlet.is_none() {
            table.streams.remove(&id);
        }
        self.outbox.push(Frame::Data { stream: id, fin: true, bytes: bytes::Bytes::new() });
    }

    /// Nobody here holds a stream any more: if the peer still does, it is told.
    pub(super) fn forget(&self, id: u32) {
        if self.table.lock().streams.remove(&id).is_some() {
            self.outbox.push(Frame::RstStream { stream: id, status: reset::CANCEL });
        }
    }

    /// Resets what is open and goes away; what was queued before is still sent.
    pub(super) fn close(&self, status: u32) {
        let mut table = self.table.lock();
        table.going = true;
        if std::mem::replace(&mut table.closed, true) {
            return;
        }
        for id in table.streams.keys() {
            self.outbox.push(Frame::RstStream { stream: *id, status: reset::CANCEL });
        }
        self.outbox.push(Frame::GoAway { last: table.last, status });
    }
}

/// A stream's place in the table, held by its halves.
pub(super) struct Place {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.forget(self.id);
    }
}

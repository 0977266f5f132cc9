//! A connection: its handle, and the task that reads and writes it.

use std::{future::pending, io, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::{
    Options, Role,
    frame::{self, Frame, HEAD, Head, goaway},
    headers::{Compressor, Decompressor, Headers},
    stream::Stream,
    table::{Shared, Table},
};
use crate::{
    Error,
    idle::Activity,
    inbox::inbox,
    outbox::{Outlet, PIECE, outbox},
};

/// Streams the peer opened and nobody took yet.
const BACKLOG: usize = 16;
/// The peer's reply to an opened stream may take this long; upstream's bound.
const REPLY: Duration = Duration::from_secs(30);
/// After one side has closed, the other gets this long to do so.
const LINGER: Duration = Duration::from_secs(5);

/// A SPDY connection. Dropped, it resets its streams, sends what is queued and goes away.
pub struct Connection {
    shared: Arc<Shared>,
    arrivals: mpsc::Receiver<Stream>,
    driver: Option<JoinHandle<()>>,
    /// Dropped by the driver at its end.
    ended: mpsc::Sender<()>,
}

impl Connection {
    /// Speaks SPDY over `io`; must be called within a runtime.
    pub fn new<I: AsyncRead + AsyncWrite + Send + 'static>(io: I, role: Role, options: Options) -> Self {
        let (outbox, outlet) = outbox();
        let shared = Arc::new(Shared { role, outbox, table: Mutex::new(Table::new(role)) });
        let (arrived, arrivals) = mpsc::channel(BACKLOG);
        let (ended, alive) = mpsc::channel(1);
        let driver = tokio::spawn(drive(io, shared.clone(), outlet, arrived, options, alive));
        Self { shared, arrivals, driver: Some(driver), ended }
    }

    /// Opens a stream; returns when the peer has taken it.
    pub async fn open(&self, headers: Headers) -> Result<Stream, Error> {
        let (inlet, inbox) = inbox();
        let (sender, replied) = oneshot::channel();
        let place = self.shared.outbox.place().await?;
        let id = {
            // Under the lock until it is queued: numbers must grow on the wire.
            let mut table = self.shared.table.lock();
            let id = table.open(inlet, sender).ok_or(Error::Closed)?;
            let syn = Frame::SynStream { stream: id, associated: 0, fin: false, unidirectional: false, headers: headers.clone() };
            self.shared.outbox.fill(syn, place)?;
            id
        };
        let stream = Stream::new(&self.shared, id, headers, inbox);
        match tokio::time::timeout(REPLY, replied).await {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => Err(Error::Late("the peer to reply to a stream")),
        }
    }

    /// The next stream the peer opens; `None` when there will be none.
    pub async fn accept(&mut self) -> Option<Stream> {
        self.arrivals.recv().await
    }

    /// Takes no more streams of the peer.
    pub fn refuse_more(&mut self) {
        self.arrivals.close();
    }

    /// Returns when the peer is gone.
    pub async fn ended(&self) {
        self.ended.closed().await;
    }

    /// Resets its streams, sends what is queued and goes away; returns when the connection has ended.
    pub async fn close(mut self) {
        self.shared.close(goaway::OK);
        if let Some(driver) = self.driver.take() {
            let _ = driver.await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close(goaway::OK);
    }
}

async fn drive<I: AsyncRead + AsyncWrite>(
    io: I,
    shared: Arc<Shared>,
    outlet: Outlet<Frame>,
    arrived: mpsc::Sender<Stream>,
    options: Options,
    alive: mpsc::Receiver<()>,
) {
    let (reader, writer) = tokio::io::split(io);
    let activity = Activity::new();
    let mut reading = pin!(read(BufReader::new(reader), &shared, arrived, &activity));
    let mut writing = pin!(write(BufWriter::new(writer), shared.role, outlet, options.ping, &activity));
    let failure = tokio::select! {
        end = &mut reading => match end {
            Ok(()) => None,
            Err(Error::Malformed(_)) => {
                shared.close(goaway::PROTOCOL_ERROR);
                let _ = tokio::time::timeout(LINGER, writing).await;
                Some(io::ErrorKind::InvalidData)
            }
            Err(_) => Some(io::ErrorKind::UnexpectedEof),
        },
        end = &mut writing => match end {
            Ok(()) => {
                // Closing while bytes of the peer are unread would reset the connection and lose what was just sent.
                let _ = tokio::time::timeout(LINGER, reading).await;
                None
            }
            Err(_) => Some(io::ErrorKind::BrokenPipe),
        },
        () = activity.ceased_for(options.idle) => Some(io::ErrorKind::TimedOut),
    };
    shared.table.lock().end(failure);
    drop(alive);
}

/// Reads frames until the peer closes the connection.
async fn read(
    mut reader: impl AsyncRead + Unpin,
    shared: &Arc<Shared>,
    arrived: mpsc::Sender<Stream>,
    activity: &Activity,
) -> Result<(), Error> {
    let mut inflate = Decompressor::new();
    let mut payload = Vec::new();
    while let Some(head) = next_head(&mut reader).await? {
        match Head::parse(head)? {
            Head::Data { stream, fin, length } => {
                activity.seen();
                data(&mut reader, shared, stream, fin, length).await?;
            }
            Head::Control { kind, flags, length } => {
                payload.resize(length, 0);
                reader.read_exact(&mut payload).await?;
                if let Some(frame) = frame::control(kind, flags, &payload, &mut inflate)? {
                    control(shared, &arrived, frame).await?;
                }
            }
        }
    }
    // Whoever goes away says so first; else it was cut off, and nobody may take what came for all.
    if shared.table.lock().going { Ok(()) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) }
}

/// The next frame's first bytes; `None` at the end of the connection.
async fn next_head(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<[u8; HEAD]>> {
    let mut head = [0; HEAD];
    let first = reader.read(&mut head).await?;
    if first == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut head[first..]).await?;
    Ok(Some(head))
}

/// Hands a frame's data to its stream piece by piece. Nobody's data is read and dropped.
async fn data(reader: &mut (impl AsyncRead + Unpin), shared: &Shared, stream: u32, fin: bool, length: usize) -> Result<(), Error> {
    let mut left = length;
    while left > 0 {
        let mut piece = vec![0; left.min(PIECE)];
        reader.read_exact(&mut piece).await?;
        left -= piece.len();
        let inlet = shared.table.lock().inlet(stream);
        if let Some(inlet) = inlet {
            inlet.deliver(Bytes::from(piece)).await;
        }
    }
    if fin {
        shared.table.lock().received_all(stream);
    }
    Ok(())
}

async fn control(shared: &Arc<Shared>, arrived: &mpsc::Sender<Stream>, frame: Frame) -> Result<(), Error> {
    match frame {
        Frame::SynStream { stream, fin, unidirectional, headers, .. } => {
            arrive(shared, arrived, stream, fin, unidirectional, headers).await?;
        }
        Frame::SynReply { stream, fin, .. } => {
            let mut table = shared.table.lock();
            table.replied(stream);
            if fin {
                table.received_all(stream);
            }
        }
        Frame::Headers { stream, fin: true, .. } => shared.table.lock().received_all(stream),
        Frame::RstStream { stream, status } => shared.table.lock().reset(stream, status),
        // An answer to a ping of ours has our parity.
        Frame::Ping(id) if (id % 2 == 1) == (shared.role == Role::Server) => shared.outbox.offer(Frame::Ping(id)),
        Frame::GoAway { .. } => shared.table.lock().going = true,
        _ => {}
    }
    Ok(())
}

async fn arrive(
    shared: &Arc<Shared>,
    arrived: &mpsc::Sender<Stream>,
    id: u32,
    fin: bool,
    unidirectional: bool,
    headers: Headers,
) -> Result<(), Error> {
    let (inlet, inbox) = inbox();
    let accepted = shared.table.lock().accept(shared.role, id, (!fin).then_some(inlet), unidirectional);
    if let Err(status) = accepted {
        shared.outbox.offer(Frame::RstStream { stream: id, status });
        return Ok(());
    }
    let stream = Stream::new(shared, id, headers, inbox);
    shared.outbox.send(Frame::SynReply { stream: id, fin: false, headers: Headers::default() }).await?;
    // Where no more are taken, the stream is dropped, and reset by that.
    let _ = arrived.send(stream).await;
    Ok(())
}

/// Writes frames until this side goes away.
async fn write(
    mut writer: impl AsyncWrite + Unpin,
    role: Role,
    mut outlet: Outlet<Frame>,
    ping: Option<Duration>,
    activity: &Activity,
) -> Result<(), Error> {
    let mut deflate = Compressor::new();
    let mut pings = ping.map(|period| interval_at(Instant::now() + period, period));
    if let Some(pings) = &mut pings {
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let mut ping_id = if role == Role::Client { 1 } else { 2 };
    loop {
        let tick = async {
            match &mut pings {
                Some(pings) => drop(pings.tick().await),
                None => pending().await,
            }
        };
        let (frame, _place) = tokio::select! {
            next = outlet.next() => match next {
                Some(next) => next,
                None => return Ok(()),
            },
            () = tick => {
                ping_id = if ping_id > 0x7fff_fffd { ping_id % 2 + 2 } else { ping_id + 2 };
                (Frame::Ping(ping_id), None)
            }
        };
        writer.write_all(&frame.encode(&mut deflate)?).await?;
        if let Frame::Data { bytes, .. } = &frame {
            activity.seen();
            writer.write_all(bytes).await?;
        }
        let last = matches!(frame, Frame::GoAway { .. });
        if last || outlet.is_empty() {
            writer.flush().await?;
        }
        if last {
            return Ok(writer.shutdown().await?);
        }
    }
}

//! The wires between processes on the loopback: each of them, in each direction, can be broken on its own.
//!
//! A process is reached by the others through a listener of [`Wires`]. Who dials is told by the process that owns the
//! dialling socket, so all may dial the same address, as members of a store do.

mod dialler;

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// Bytes read at once.
const CHUNK: usize = 16 << 10;
/// Chunks on one wire in one direction at most; then the sender feels it, as it would feel a full window.
const IN_FLIGHT: usize = 64;

/// How one direction between two processes is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// Everything arrives.
    #[default]
    Good,
    /// Nothing arrives, and nobody is told; what is under way is late, not lost, should the connection live so long.
    Silent,
    /// Connections are reset, also new ones.
    Cut,
    /// Everything arrives so much later.
    Late(Duration),
}

/// The wires between `size` processes, numbered from 0. All end when it is dropped.
pub struct Wires {
    size: usize,
    /// By sender and receiver.
    directions: HashMap<(usize, usize), watch::Sender<Wire>>,
    processes: Mutex<HashMap<u32, usize>>,
    tasks: Mutex<JoinSet<()>>,
    carried: AtomicU64,
}

impl Wires {
    /// Good wires between nobody yet.
    pub fn new(size: usize) -> Arc<Self> {
        let pairs = (0..size).flat_map(|from| (0..size).map(move |to| (from, to)));
        let directions = pairs.filter(|(from, to)| from != to).map(|pair| (pair, watch::Sender::default())).collect();
        let (processes, tasks) = (Mutex::default(), Mutex::default());
        Arc::new(Self { size, directions, processes, tasks, carried: AtomicU64::new(0) })
    }

    /// Opens the address at which the others reach process `to`, which itself listens at `port`.
    pub async fn listen(self: &Arc<Self>, to: usize, port: u16) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        // Weak: the listeners end with the last handle.
        let wires = Arc::downgrade(self);
        let accept = async move {
            while let Ok((near, peer)) = listener.accept().await {
                let Some(wires) = wires.upgrade() else { return };
                let from = wires.dialler(peer, address);
                if let Some(from) = from.filter(|from| *from != to) {
                    let carry = carry(near, port, wires.direction(from, to).subscribe(), wires.direction(to, from).subscribe());
                    wires.tasks.lock().unwrap().spawn(carry);
                    wires.carried.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        self.tasks.lock().unwrap().spawn(accept);
        address.port()
    }

    /// Tells which process has an ID: connections of others are refused.
    pub fn is_process(&self, number: usize, pid: u32) {
        let mut processes = self.processes.lock().unwrap();
        processes.retain(|_, known| *known != number);
        processes.insert(pid, number);
    }

    /// Connections carried so far: a test in which there are none cuts nothing.
    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    /// Changes one direction.
    pub fn set(&self, from: usize, to: usize, wire: Wire) {
        self.direction(from, to).send_replace(wire);
    }

    /// Changes both directions between one process and each of the others.
    pub fn isolate(&self, one: usize, wire: Wire) {
        self.deafen(one, wire);
        self.mute(one, wire);
    }

    /// Changes what one process hears of all others.
    pub fn deafen(&self, one: usize, wire: Wire) {
        (0..self.size).filter(|other| *other != one).for_each(|other| self.set(other, one, wire));
    }

    /// Changes what all others hear of one process.
    pub fn mute(&self, one: usize, wire: Wire) {
        (0..self.size).filter(|other| *other != one).for_each(|other| self.set(one, other, wire));
    }

    /// Makes every wire good.
    pub fn heal(&self) {
        self.all(Wire::Good);
    }

    /// Changes all of them.
    pub fn all(&self, wire: Wire) {
        for direction in self.directions.values() {
            direction.send_replace(wire);
        }
    }

    fn direction(&self, from: usize, to: usize) -> &watch::Sender<Wire> {
        self.directions.get(&(from, to)).unwrap_or_else(|| panic!("no wire from {from} to {to}"))
    }

    fn dialler(&self, peer: SocketAddr, own: SocketAddr) -> Option<usize> {
        let processes = self.processes.lock().unwrap();
        let owner = dialler::owner(processes.keys().copied(), peer.port(), own.port())?;
        processes.get(&owner).copied()
    }
}

/// Carries one connection until it ends or a wire is cut.
async fn carry(mut near: TcpStream, port: u16, mut there: watch::Receiver<Wire>, mut back: watch::Receiver<Wire>) {
    let (a, b) = (there.clone(), back.clone());
    if *a.borrow() == Wire::Cut || *b.borrow() == Wire::Cut {
        let _ = near.set_zero_linger();
        return;
    }
    let carried = async {
        let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
        // Small frames must not wait for each other.
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let reset = {
            let ((near_read, near_write), (far_read, far_write)) = (near.split(), far.split());
            tokio::select! {
                // When one side is gone, so is the other.
                _ = async { tokio::try_join!(direction(near_read, far_write, a), direction(far_read, near_write, b)) } => false,
                _ = there.wait_for(|wire| *wire == Wire::Cut) => true,
                _ = back.wait_for(|wire| *wire == Wire::Cut) => true,
            }
        };
        if reset {
            let _ = (near.set_zero_linger(), far.set_zero_linger());
        }
    };
    carried.await;
}

/// Carries what goes one way. An end of the stream is carried like its bytes.
async fn direction(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut wire: watch::Receiver<Wire>) -> io::Result<()> {
    let (sender, mut under_way) = mpsc::channel::<(Instant, Vec<u8>)>(IN_FLIGHT);
    let delay = wire.clone();
    let take = async move {
        loop {
            let mut chunk = vec![0; CHUNK];
            let read = from.read(&mut chunk).await.unwrap_or(0);
            chunk.truncate(read);
            let late = match *delay.borrow() {
                Wire::Late(late) => late,
                _ => Duration::ZERO,
            };
            if sender.send((Instant::now() + late, chunk)).await.is_err() || read == 0 {
                return;
            }
        }
    };
    let give = async move {
        while let Some((due, chunk)) = under_way.recv().await {
            sleep_until(due).await;
            let carries = |wire: &Wire| matches!(wire, Wire::Good | Wire::Late(_));
            // The wires are gone: the test is over.
            wire.wait_for(carries).await.map_err(io::Error::other)?;
            match chunk.is_empty() {
                true => to.shutdown().await?,
                false => to.write_all(&chunk).await?,
            }
        }
        Ok(())
    };
    let ((), given) = tokio::join!(take, give);
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(5);
    const NEVER: Duration = Duration::from_millis(150);

    /// Process 1 echoes; this test is process 0 and dials it.
    async fn echo() -> (Arc<Wires>, u16) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        let wires = Wires::new(2);
        wires.is_process(0, std::process::id());
        let reached_at = wires.listen(1, port).await;
        (wires, reached_at)
    }

    async fn dial(port: u16) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap()
    }

    async fn says(stream: &mut TcpStream, byte: u8) {
        stream.write_all(&[byte]).await.unwrap();
    }

    async fn hears(stream: &mut TcpStream) -> io::Result<u8> {
        stream.read_u8().await
    }

    #[tokio::test]
    async fn a_good_wire_carries_bytes_and_the_end() {
        let (wires, port) = echo().await;
        let mut stream = dial(port).await;
        says(&mut stream, 7).await;
        assert_eq!(timeout(SOON, hears(&mut stream)).await.unwrap().unwrap(), 7);
        stream.shutdown().await.unwrap();
        assert!(timeout(SOON, hears(&mut stream)).await.unwrap().is_err());
        assert_eq!(wires.carried(), 1);
    }

    #[tokio::test]
    async fn a_silent_direction_holds_back_and_delivers_when_it_heals() {
        for (from, to) in [(0, 1), (1, 0)] {
            let (wires, port) = echo().await;
            let mut stream = dial(port).await;
            wires.set(from, to, Wire::Silent);
            says(&mut stream, 8).await;
            assert!(timeout(NEVER, hears(&mut stream)).await.is_err(), "{from} to {to}");
            wires.heal();
            assert_eq!(timeout(SOON, hears(&mut stream)).await.unwrap().unwrap(), 8);
        }
    }

    #[tokio::test]
    async fn a_cut_wire_resets_what_is_there_and_what_comes() {
        let (wires, port) = echo().await;
        let mut stream = dial(port).await;
        says(&mut stream, 1).await;
        timeout(SOON, hears(&mut stream)).await.unwrap().unwrap();
        wires.set(1, 0, Wire::Cut);
        let error = timeout(SOON, hears(&mut stream)).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let mut next = dial(port).await;
        assert!(timeout(SOON, hears(&mut next)).await.unwrap().is_err());
        wires.heal();
        let mut healed = dial(port).await;
        says(&mut healed, 2).await;
        assert_eq!(timeout(SOON, hears(&mut healed)).await.unwrap().unwrap(), 2);
    }

    #[tokio::test]
    async fn a_late_wire_keeps_the_order() {
        let (wires, port) = echo().await;
        wires.set(0, 1, Wire::Late(NEVER));
        let mut stream = dial(port).await;
        let began = Instant::now();
        for byte in 0..10 {
            says(&mut stream, byte).await;
        }
        for byte in 0..10 {
            assert_eq!(timeout(SOON, hears(&mut stream)).await.unwrap().unwrap(), byte);
        }
        assert!(began.elapsed() >= NEVER);
    }

    #[tokio::test]
    async fn strangers_are_not_connected() {
        let (wires, port) = echo().await;
        wires.is_process(0, 1);
        let mut stream = dial(port).await;
        let _ = stream.write_all(&[1]).await;
        assert!(timeout(SOON, hears(&mut stream)).await.unwrap().is_err());
        assert_eq!(wires.carried(), 0);
    }
}

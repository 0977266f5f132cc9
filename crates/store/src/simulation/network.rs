//! The network between members and clients, as TCP shows it: what is sent arrives late, after what was sent later on
//! another connection, or not before a connection breaks.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use component::Shutdown;
use parking_lot::Mutex;
use rand::{Rng as _, rngs::StdRng};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use super::{
    connection::Connection,
    tally::{Happening, Tally},
};

/// A machine: members from 0 on, clients from [`CLIENTS`] on.
pub(super) type Place = usize;

/// The first client's place.
pub(super) const CLIENTS: Place = 100;

/// Nobody waits longer for a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// A silent connection is given up between these, as probes find out.
const SILENCE: std::ops::Range<u64> = 2_000..4_000;
/// What was lost is sent again after so many milliseconds.
const RETRANSMISSION: std::ops::Range<u64> = 50..400;

/// How it goes for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// Longest way, in microseconds.
    pub(super) delay: u64,
    /// How many in a thousand are lost, arrive twice, or break their connection.
    pub(super) lost: u32,
    pub(super) repeated: u32,
    pub(super) breaking: u32,
}

impl Weather {
    /// As in a machine room.
    pub(super) const FAIR: Self = Self { delay: 2_000, lost: 0, repeated: 5, breaking: 0 };
    /// As over bad wires.
    pub(super) const FOUL: Self = Self { delay: 60_000, lost: 80, repeated: 80, breaking: 10 };
    /// As across continents.
    pub(super) const SLOW: Self = Self { delay: 250_000, lost: 5, repeated: 10, breaking: 1 };
}

/// A process as the network knows it.
#[derive(Clone)]
pub(super) struct Life {
    pub(super) place: Place,
    /// It sends and hears nothing any more.
    pub(super) ended: Shutdown,
}

impl Life {
    /// A new process.
    pub(super) fn new(place: Place) -> Self {
        Self { place, ended: Shutdown::new() }
    }
}

/// Which of a member's two doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Port {
    /// For members.
    Peers,
    /// For clients.
    Clients,
}

/// A process that listens.
#[derive(Clone)]
pub(super) struct Listener {
    pub(super) life: Life,
    pub(super) peers: axum::Router,
    pub(super) clients: axum::Router,
}

/// What is found at a place.
enum Host {
    Listens(Listener),
    /// The machine says that nobody listens.
    Closed,
    /// It says nothing.
    Off,
}

/// The network; clones share it.
#[derive(Clone)]
pub(super) struct Network(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Changes when a way is opened.
    opened: Notify,
    tally: Tally,
    began: Instant,
    /// Every message is shown (`SIMULATION_TRACE`).
    traced: bool,
}

struct State {
    dice: StdRng,
    weather: Weather,
    /// Ways nothing passes, each with the number of its cut.
    cuts: BTreeMap<(Place, Place), u64>,
    last_cut: u64,
    hosts: BTreeMap<Place, Host>,
    connections: Vec<Weak<Connection>>,
    digest: DefaultHasher,
}

impl Network {
    /// With nobody on it.
    pub(super) fn new(dice: StdRng, tally: Tally) -> Self {
        let state = State {
            dice,
            weather: Weather::FAIR,
            cuts: BTreeMap::new(),
            last_cut: 0,
            hosts: BTreeMap::new(),
            connections: Vec::new(),
            // Without keys of its own it says the same in every process.
            digest: DefaultHasher::new(),
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            opened: Notify::new(),
            tally,
            began: Instant::now(),
            traced: std::env::var_os("SIMULATION_TRACE").is_some(),
        }))
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.0.tally
    }

    /// What stands for everything that was sent so far, when and where.
    pub(super) fn digest(&self) -> u64 {
        self.0.state.lock().digest.finish()
    }

    /// Adds to [`Network::digest`].
    pub(super) fn note(&self, from: Place, to: Place, what: &[u8]) {
        let at = self.0.began.elapsed();
        (at, from, to, what).hash(&mut self.0.state.lock().digest);
        if self.0.traced {
            eprintln!("{at:?} {from} -> {to}: {}", String::from_utf8_lossy(what).escape_debug());
        }
    }

    pub(super) fn set_weather(&self, weather: Weather) {
        self.0.state.lock().weather = weather;
    }

    /// Whether a message is to arrive twice.
    pub(super) fn repeats(&self) -> bool {
        let state = &mut *self.0.state.lock();
        state.dice.random_range(0..1000) < state.weather.repeated
    }

    /// A time up to a limit.
    pub(super) fn some_time(&self, limit: Duration) -> Duration {
        Duration::from_micros(self.0.state.lock().dice.random_range(0..=limit.as_micros() as u64))
    }

    /// Waits until a message gets on its way, and says how long that is. None: its connection breaks over it.
    pub(super) async fn depart(&self, from: Place, to: Place) -> Option<Duration> {
        loop {
            let opened = self.0.opened.notified();
            let lost = {
                let state = &mut *self.0.state.lock();
                match state.cuts.contains_key(&(from, to)) {
                    true => None,
                    false => {
                        let (throw, Weather { delay, lost, breaking, .. }) = (state.dice.random_range(0..1000), state.weather);
                        if throw < breaking {
                            return None;
                        }
                        if throw >= breaking + lost {
                            self.0.tally.count(Happening::Message);
                            return Some(Duration::from_micros(state.dice.random_range(50..=delay)));
                        }
                        Some(Duration::from_millis(state.dice.random_range(RETRANSMISSION)))
                    }
                }
            };
            match lost {
                Some(delay) => {
                    self.0.tally.count(Happening::MessageLost);
                    sleep(delay).await;
                }
                None => opened.await,
            }
        }
    }

    /// Brings one small message there.
    async fn pass(&self, from: Place, to: Place) -> Option<()> {
        sleep(self.depart(from, to).await?).await;
        Some(())
    }

    /// Connects a process to a member's door.
    pub(super) async fn dial(&self, from: &Life, to: Place, port: Port) -> io::Result<Arc<Connection>> {
        if from.ended.is_cancelled() {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        let reach = async {
            self.pass(from.place, to).await?;
            let found = match self.0.state.lock().hosts.get(&to) {
                Some(Host::Listens(listener)) => Some(listener.clone()),
                Some(Host::Closed) => None,
                Some(Host::Off) | None => return None,
            };
            self.pass(to, from.place).await?;
            // A process that ended meanwhile did not answer, nor would it notice that this connection is to be broken.
            found.as_ref().is_none_or(|listener| !listener.life.ended.is_cancelled()).then_some(found)
        };
        let unanswered = async { if let Some(found) = reach.await { found } else { std::future::pending().await } };
        let found = timeout(CONNECT, unanswered).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        let listener = found.ok_or(io::ErrorKind::ConnectionRefused)?;
        let connection = Arc::new(Connection::new(self.clone(), from.clone(), listener, port));
        let state = &mut *self.0.state.lock();
        state.connections.retain(|connection| connection.strong_count() > 0);
        state.connections.push(Arc::downgrade(&connection));
        Ok(connection)
    }

    /// A process listens.
    pub(super) fn listen(&self, listener: Listener) {
        let place = listener.life.place;
        self.0.state.lock().hosts.insert(place, Host::Listens(listener));
        // What an earlier process left is refused now.
        self.break_connections(|a, b| a == place || b == place, Duration::from_millis(5));
    }

    /// Its process is gone, and the machine says so.
    pub(super) fn close(&self, place: Place) {
        self.0.state.lock().hosts.insert(place, Host::Closed);
        self.break_connections(|a, b| a == place || b == place, Duration::from_millis(5));
    }

    /// The machine is gone, and says nothing.
    pub(super) fn switch_off(&self, place: Place) {
        self.0.state.lock().hosts.insert(place, Host::Off);
        self.break_connections(|a, b| a == place || b == place, self.silence());
    }

    /// Nothing passes from one place to another until [`Network::heal`].
    pub(super) fn cut(&self, from: Place, to: Place) {
        let number = {
            let state = &mut *self.0.state.lock();
            state.last_cut += 1;
            state.cuts.insert((from, to), state.last_cut);
            state.last_cut
        };
        let (network, silence) = (self.clone(), self.silence());
        tokio::spawn(async move {
            sleep(silence).await;
            if network.0.state.lock().cuts.get(&(from, to)) == Some(&number) {
                network.break_connections(|a, b| (a, b) == (from, to) || (a, b) == (to, from), Duration::ZERO);
            }
        });
    }

    /// All ways are open.
    pub(super) fn heal(&self) {
        self.0.state.lock().cuts.clear();
        self.0.opened.notify_waiters();
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.0.state.lock().dice.random_range(SILENCE))
    }

    /// Breaks the connections there are now between such places, each within `limit` from its end on.
    fn break_connections(&self, concerned: impl Fn(Place, Place) -> bool, limit: Duration) {
        let connections: Vec<_> = self.0.state.lock().connections.iter().filter_map(Weak::upgrade).collect();
        for connection in connections.into_iter().filter(|connection| concerned(connection.from(), connection.to())) {
            let after = self.some_time(limit);
            tokio::spawn(async move {
                sleep(after).await;
                connection.break_off();
            });
        }
    }
}

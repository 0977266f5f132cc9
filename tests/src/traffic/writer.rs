//! A client that writes and reads the same few keys as everybody else.

use std::{collections::HashMap, time::Duration};

use rand::{Rng as _, rngs::StdRng};
use tokio::sync::watch;

use super::{Diary, Door, Shape};
use crate::history::{Answer, Call, Compare, Found, Op, Outcome, Range, Request};

/// Keys everybody fights for.
const KEYS: u32 = 5;
/// Clients differ in how long they wait: one gives up before the store does, the other hears why.
const DEADLINES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(8)];
/// After a call that failed, the rest is so many times longer.
const PAUSE: u32 = 4;

/// One client of one member.
pub(super) struct Writer {
    name: String,
    door: Door,
    deadline: Duration,
    pace: Duration,
    diary: Diary,
    wishes: Wishes,
}

/// What a client asks for, one thing after the other.
pub struct Wishes {
    name: String,
    prefix: String,
    /// Requests so far: what makes its values its own.
    number: usize,
    /// The revision at which it last saw each key changed.
    seen: HashMap<String, i64>,
}

impl Writer {
    pub(super) fn new(name: String, door: Door, shape: &Shape, number: usize, diary: Diary) -> Self {
        let (deadline, wishes) = (DEADLINES[number % DEADLINES.len()], Wishes::new(name.clone(), shape.prefix.clone()));
        Self { name, door: door.again(), deadline, pace: shape.pace, diary, wishes }
    }

    pub(super) async fn run(mut self, mut dice: StdRng, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let request = self.wishes.next(&mut dice);
            let start = self.diary.now();
            let outcome = self.door.call(&request, self.deadline).await;
            let end = self.diary.now();
            let failed = match &outcome {
                Outcome::Done(answer) => {
                    self.wishes.learn(&request, answer);
                    false
                }
                Outcome::Refused | Outcome::Unknown => true,
            };
            self.diary.note(Call { client: self.name.clone(), start, end, request, outcome });
            tokio::time::sleep(if failed { self.pace * PAUSE } else { self.pace }).await;
        }
    }
}

impl Wishes {
    /// Those of the client `name`, which no other client shares, on keys that begin with `prefix`.
    pub fn new(name: String, prefix: String) -> Self {
        Self { name, prefix, number: 0, seen: HashMap::new() }
    }

    /// The next one.
    pub fn next(&mut self, dice: &mut StdRng) -> Request {
        self.number += 1;
        let key = format!("{}r{}", self.prefix, dice.random_range(0..KEYS));
        let value = format!("{}#{}", self.name, self.number);
        let get = Op::Get(Range::key(&key));
        let plain = |op| Request { then: vec![op], ..Request::default() };
        match dice.random_range(0..100) {
            0..45 => plain(Op::Put { key, value }),
            45..55 => plain(Op::Delete { key }),
            55..65 => Request {
                compare: vec![Compare { modified: self.seen.get(&key).copied().unwrap_or(0), key: key.clone() }],
                then: vec![Op::Put { key: key.clone(), value }],
                otherwise: vec![get],
                serializable: false,
            },
            65..72 => {
                let both = format!("{}both", self.prefix);
                let then = vec![Op::Put { key, value: value.clone() }, Op::Put { key: both, value: format!("{value}+") }];
                Request { then, ..Request::default() }
            }
            72..86 => plain(get),
            86..93 => plain(Op::Get(Range::prefix(&self.prefix))),
            _ => Request { serializable: true, ..plain(get) },
        }
    }

    /// Takes note of an answer: later wishes build on it.
    pub fn learn(&mut self, request: &Request, answer: &Answer) {
        for (op, found) in request.then.iter().zip(&answer.results).filter(|_| answer.succeeded) {
            if let (Op::Put { key, .. }, Found::Put) = (op, found) {
                self.seen.insert(key.clone(), answer.revision);
            }
        }
        for found in &answer.results {
            if let Found::Pairs(pairs) = found {
                self.seen.extend(pairs.iter().map(|pair| (pair.key.clone(), pair.modified)));
            }
        }
    }
}

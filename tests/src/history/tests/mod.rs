//! Right histories are accepted; each way of breaking one is noticed.
#![allow(clippy::unwrap_used)]

mod broken;
mod following;
mod right;
mod watching;

use std::time::Duration;

use super::{model::Model, *};

const fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn put(key: &str, value: &str) -> Request {
    Request { then: vec![Op::Put { key: key.to_owned(), value: value.to_owned() }], ..Request::default() }
}

fn delete(key: &str) -> Request {
    Request { then: vec![Op::Delete { key: key.to_owned() }], ..Request::default() }
}

fn get(key: &str) -> Request {
    Request { then: vec![Op::Get(Range::key(key))], ..Request::default() }
}

/// A store that does everything right, and remembers what its clients saw.
struct Store {
    model: Model,
    revision: i64,
    events: Vec<Event>,
    calls: Vec<Call>,
}

impl Store {
    fn new() -> Self {
        Self { model: Model::default(), revision: 1, events: Vec::new(), calls: Vec::new() }
    }

    /// Does something and says so.
    fn does(&mut self, start: u64, end: u64, request: Request) -> Answer {
        let answer = self.effect(&request);
        self.saw(start, end, request, Outcome::Done(answer.clone()));
        answer
    }

    /// Does something without a client hearing of it.
    fn effect(&mut self, request: &Request) -> Answer {
        let (answer, events) = self.model.run(request, self.revision + 1);
        if events.is_empty() {
            return Answer { revision: self.revision, ..answer };
        }
        self.revision += 1;
        self.model.replay(&events);
        self.events.extend(events);
        answer
    }

    fn saw(&mut self, start: u64, end: u64, request: Request, outcome: Outcome) {
        let client = format!("client {}", self.calls.len() % 3);
        self.calls.push(Call { client, start: at(start), end: at(end), request, outcome });
    }

    fn log(&self) -> Log {
        Log::new(1, self.revision, self.events.clone())
    }

    fn verdict(&self) -> Result<(), Violation> {
        let log = self.log();
        log.without_gaps()?;
        calls::check(&log, &self.calls)
    }

    /// Changes the answer of the latest call.
    fn lie(&mut self, lie: impl FnOnce(&mut Answer)) {
        match &mut self.calls.last_mut().unwrap().outcome {
            Outcome::Done(answer) => lie(answer),
            other => panic!("{other:?}"),
        }
    }
}

//! One set of requests with their exact answers, put to the store and to a real etcd: both must give them.
//!
//! Each case begins on an emptied server, and answers tell revisions as counted from there: see [`text`] for how answers
//! are written. What etcd 3.6 answers otherwise than the 3.5 at hand is marked where it is asked.
#![allow(clippy::unwrap_used)]

mod cluster;
mod kv;
mod lease;
mod maintenance;
mod queue;
mod talk;
mod text;
mod watch;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tests::{Maker, Server};

use talk::Talk;

/// Longest time for one case.
const LIMIT: Duration = Duration::from_secs(60);
/// For both makers; etcd 3.6 still knows the name that 3.5 had.
const FLAGS: [&str; 1] = ["--experimental-watch-progress-notify-interval=100ms"];

/// What a case says, step by step, to a server.
type Run = for<'a> fn(&'a mut Talk) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A sentence and what shows it.
struct Case {
    name: &'static str,
    run: Run,
}

/// The table of a file's cases, from the names of its functions.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(crate) const CASES: &[crate::Case] =
            &[$(crate::Case { name: stringify!($name), run: |talk| Box::pin($name(talk)) }),*];
    };
}
pub(crate) use cases;

/// The files, by service.
static GROUPS: [(&str, &[Case]); 10] = [
    ("kv::range", kv::range::CASES),
    ("kv::write", kv::write::CASES),
    ("kv::compare", kv::compare::CASES),
    ("kv::txn", kv::txn::CASES),
    ("watch::creating", watch::creating::CASES),
    ("watch::telling", watch::telling::CASES),
    ("lease", lease::CASES),
    ("maintenance", maintenance::CASES),
    ("cluster", cluster::CASES),
    ("queue", queue::CASES),
];

/// One maker's server, started for the first case and used by one at a time.
struct Subject {
    maker: Maker,
    server: Mutex<Option<Server>>,
}

impl Subject {
    fn new(maker: Maker) -> Arc<Self> {
        Arc::new(Self { maker, server: Mutex::default() })
    }

    fn name(&self) -> &'static str {
        match self.maker {
            Maker::Ours => "store",
            Maker::Etcd => "etcd",
        }
    }

    fn run(&self, case: &Case) {
        let mut place = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let server = place.get_or_insert_with(|| Server::start(self.maker, &FLAGS));
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let mut talk = Talk::begin(server.endpoint()).await;
            let ended = tokio::time::timeout(LIMIT, (case.run)(&mut talk)).await;
            assert!(ended.is_ok(), "not within {LIMIT:?}");
        });
    }

    fn stop(&self) {
        drop(self.server.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn trial(subject: &Arc<Subject>, group: &str, case: &'static Case) -> Trial {
    let subject = Arc::clone(subject);
    Trial::test(format!("{}::{group}::{}", subject.name(), case.name), move || {
        subject.run(case);
        Ok(())
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let subjects = [Maker::Ours, Maker::Etcd].map(Subject::new);
    let mut trials = Vec::new();
    for subject in &subjects {
        for (group, cases) in &GROUPS {
            trials.extend(cases.iter().map(|case| trial(subject, group, case)));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    subjects.iter().for_each(|subject| subject.stop());
    conclusion.exit_code()
}

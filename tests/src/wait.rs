//! Waiting for an outcome, never for a time.

use std::time::{Duration, Instant};

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// Looks until `probe` gives a value; panics with its last complaint after `limit`.
pub fn within<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match probe() {
            Ok(value) => return value,
            Err(complaint) if began.elapsed() > limit => panic!("{what}: not within {limit:?}: {complaint}"),
            Err(_) => std::thread::sleep(INTERVAL),
        }
    }
}

/// [`within`] 30 seconds, for a yes.
pub fn eventually(what: &str, mut probe: impl FnMut() -> bool) {
    within(Duration::from_secs(30), what, || if probe() { Ok(()) } else { Err("still not so".to_owned()) });
}

//! Read, change, write, and again on a conflict.

use std::time::Duration;

use rand::Rng as _;

/// Attempts of [`on_conflict`], as client-go's `retry.DefaultRetry`.
const ATTEMPTS: u32 = 5;

/// Runs `attempt` until it succeeds, fails with anything but a conflict, or has conflicted five times.
///
/// `attempt` must read the object afresh each time, or the conflict cannot go away.
///
/// # Errors
/// The last error of `attempt`.
pub async fn on_conflict<T, F>(mut attempt: impl FnMut() -> F) -> kube::Result<T>
where
    F: Future<Output = kube::Result<T>>,
{
    let mut tries = 1;
    loop {
        match attempt().await {
            Err(error) if is_conflict(&error) && tries < ATTEMPTS => {
                tries += 1;
                tokio::time::sleep(jitter(Duration::from_millis(10), 0.1)).await;
            }
            result => return result,
        }
    }
}

/// A random duration between `duration` and `factor` times more than it (upstream: `wait.Jitter`).
pub fn jitter(duration: Duration, factor: f64) -> Duration {
    duration.mul_f64(1.0 + rand::rng().random::<f64>() * factor)
}

/// Whether the server refused a write because its object has changed meanwhile.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() && !status.is_already_exists())
}

/// Whether the object is not there.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

/// Whether an object of that name is there already.
pub fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// Whether a write that failed may have happened all the same: its answer was lost, or the server gave up waiting for the store.
pub fn may_have_happened(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return true };
    status.code == 504
}

/// Whether a create was refused because its namespace is going away; trying again cannot help.
pub fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_forbidden() && causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// `None` for an object that is not there.
///
/// # Errors
/// Every error but "not found".
pub fn optional<T>(result: kube::Result<T>) -> kube::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kube::core::Status;

    use super::on_conflict;

    fn conflict() -> kube::Error {
        kube::Error::Api(Status::failure("changed", "Conflict").with_code(409).boxed())
    }

    #[tokio::test]
    async fn tries_again_until_the_conflict_is_gone() {
        let tries = Cell::new(0);
        let result = on_conflict(|| {
            tries.set(tries.get() + 1);
            let result = if tries.get() < 3 { Err(conflict()) } else { Ok(tries.get()) };
            async move { result }
        });
        assert_eq!(result.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn gives_up_after_five_conflicts() {
        let tries = Cell::new(0);
        let result = on_conflict(|| {
            tries.set(tries.get() + 1);
            async { Err::<(), _>(conflict()) }
        });
        assert!(result.await.is_err());
        assert_eq!(tries.get(), 5);
    }
}

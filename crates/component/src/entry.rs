//! The one way in which a binary starts: crypto provider, runtime, signals, and a readable error at the end.

use std::future::Future;
use std::process::ExitCode;

use crate::Shutdown;
use crate::shutdown;

/// Installs `ring` as rustls' provider for the whole process; later calls change nothing.
pub fn install_crypto_provider() {
    // An error only says that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Runs `body` on a fresh multi-threaded runtime until it ends, handing it a token that SIGINT, SIGTERM or the
/// death of the parent cancels. An error is printed with its whole cause chain, and the exit code is 1.
pub fn main<F, Fut>(name: &str, body: F) -> ExitCode
where
    F: FnOnce(Shutdown) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    install_crypto_provider();
    match run(body) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run<F, Fut>(body: F) -> anyhow::Result<()>
where
    F: FnOnce(Shutdown) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    // Before any thread exists: the death signal belongs to the thread that asks for it.
    shutdown::follow_parent()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async { body(shutdown::on_signal()?).await });
    // Blocking tasks (a stuck file system, say) must not keep a finished process alive.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    outcome
}

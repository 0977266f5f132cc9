//! What every `main()` of Quarterdeck needs: logs, metrics, health, TLS, serving, shutdown, feature gates and the clock.
//!
//! It never knows a Kubernetes object (no arrow to `apimachinery`), so the store can use it too.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod backoff;
pub mod clock;
pub mod config_file;
mod entry;
pub mod gates;
pub mod health;
pub mod logs;
pub mod metrics;
pub mod process_metrics;
pub mod serve;
pub mod shutdown;
pub mod tcp;
pub mod tls;
mod zap;

pub use entry::{install_crypto_provider, main};
pub use shutdown::Shutdown;

/// The Kubernetes API version that this build answers for.
pub const KUBERNETES_VERSION: &str = "v1.36.2";

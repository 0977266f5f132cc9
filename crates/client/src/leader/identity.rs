//! Who this instance is.

/// The machine's name.
pub fn hostname() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.unwrap_or_else(|| "unknown".into())
}

/// A name for this instance that no other candidate has: the host's, and a random part.
pub fn identity() -> String {
    format!("{}_{}", hostname(), uuid::Uuid::new_v4())
}

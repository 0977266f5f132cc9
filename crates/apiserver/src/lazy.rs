//! What is made when first needed, and shared from then on.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, LazyLock},
};

type Make<T> = Box<dyn FnOnce() -> T + Send>;

/// A value that is made when first looked at; clones share it.
pub(crate) struct Lazy<T>(Arc<LazyLock<T, Make<T>>>);

impl<T> Lazy<T> {
    /// What `make` will make.
    pub(crate) fn new(make: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl<T> Clone for Lazy<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + 'static> From<T> for Lazy<T> {
    fn from(value: T) -> Self {
        Self::new(move || value)
    }
}

impl<T> fmt::Debug for Lazy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lazy")
    }
}

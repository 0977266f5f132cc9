//! Streams of changes: from the hub while a watcher keeps up, from history when it does not.

pub mod hub;
pub mod index;
pub mod ring;
pub mod watcher;

pub use hub::Hub;
pub use watcher::{Filter, Watch};

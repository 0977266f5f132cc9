//! Several API servers on one store, of this project's and on a real etcd: the same answers from each, and nobody loses anything
//! when one of them, or the store's leader, goes.
#![allow(clippy::unwrap_used)]

mod allocation;
mod drain;
mod endpoints;
mod reads;
mod resume;
mod several;
mod stores;

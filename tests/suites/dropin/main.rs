//! The store in the place of the program `etcd`: both are started with the same words, variables and files, asked the same over
//! HTTP, and must do the same. What etcd 3.6 does otherwise than the 3.5 at hand is said where it matters.
#![allow(clippy::unwrap_used)]

mod flags;
mod gateway;
mod health;
mod lost;
mod process;
mod tls;
mod web;

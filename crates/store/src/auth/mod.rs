//! Who may do what: etcd's users, roles and permissions.
//!
//! [`records`] knows the rows they lie in, [`permissions`] and [`commands`] decide, from data alone. How somebody proves
//! who they are is at the rim: [`tokens`] and [`jwt`] by what they got for their password ([`passwords`]); the services
//! bring these together.

pub mod commands;
pub mod jwt;
pub mod options;
pub mod passwords;
pub mod permissions;
mod ranges;
pub mod records;
pub mod tokens;

pub use options::{Authenticator, Flags};
pub use permissions::{Access, Caller, Policy};

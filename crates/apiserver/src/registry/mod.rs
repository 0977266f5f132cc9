//! The resources this server has: one [`Resource`] each, made by one line in its group's table.
//!
//! Routes, discovery, OpenAPI, storage keys, RBAC names, tables and field selectors follow from that line; what is
//! peculiar to a kind is its [`Strategy`]. A further kind is a strategy file and a table line.

pub(crate) mod addresses;
pub(crate) mod catalog;
pub(crate) mod check;
pub(crate) mod codec;
pub(crate) mod edit;
mod groups;
pub(crate) mod meta;
pub(crate) mod print;
mod resource;
pub(crate) mod selectors;
pub(crate) mod small;
pub(crate) mod store;
mod strategy;
mod streams;
mod subresource;
mod table;
mod wiring;

pub(crate) use groups::builtin_resources;
pub(crate) use resource::{Backing, Conversion, Resource, cluster, definition, namespaced};
pub(crate) use strategy::{DeleteOptions, Dependents, Finish, Generation, Plain, Strategy};
pub(crate) use streams::{Running, Streams, go_on};
pub(crate) use subresource::{Answer, Call, Connect, ScalePaths, Subresource, SubresourceKind};
pub(crate) use table::Column;
pub(crate) use wiring::{Kubelet, RuleResolver, TokenIssuer, TokenReviewer, Wiring};

pub(crate) mod admissionregistration;
pub(crate) mod apiextensions;
pub(crate) mod apiregistration;
pub(crate) mod apps;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub(crate) mod certificates;
pub(crate) mod coordination;
pub(crate) mod core;
pub(crate) mod custom;
pub(crate) mod discovery;
pub(crate) mod events;
pub(crate) mod flowcontrol;
pub(crate) mod networking;
pub(crate) mod node;
pub(crate) mod policy;
pub(crate) mod rbac;
pub(crate) mod resource_k8s;
pub(crate) mod scheduling;
pub(crate) mod storage_k8s;

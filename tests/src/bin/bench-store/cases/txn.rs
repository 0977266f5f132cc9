//! Updates as an API server makes them: only if nobody else has, else tell what is there.

use std::sync::Arc;

use bytes::Bytes;
use etcd::etcdserverpb::{
    Compare, PutRequest, RangeRequest, RequestOp, TxnRequest,
    compare::{CompareResult, CompareTarget, TargetUnion},
    kv_client::KvClient,
    request_op::Request,
};
use parking_lot::Mutex;
use rand::{Rng, rngs::SmallRng};
use tonic::{Status, transport::Channel};

use super::Context;
use crate::load::{Client, Measured, dice, noise};

/// Objects each client has for itself.
const OBJECTS: usize = 10;
const VALUE: usize = 1024;

pub(super) async fn txn(context: &Context, clients: usize) -> anyhow::Result<Measured> {
    let make = |index, channel| -> Client {
        let (objects, mut dice) = (Objects::new(index, channel), dice(index));
        Box::new(move || {
            let (objects, update) = (objects.clone(), Update::new(&mut dice));
            Box::pin(async move { objects.update(update).await })
        })
    };
    Ok(context.closed_loop(context.clients(clients, make).await?).await)
}

/// What a client is about to write.
pub(super) struct Update {
    object: usize,
    value: Bytes,
}

impl Update {
    pub(super) fn new(dice: &mut SmallRng) -> Self {
        Self { object: dice.random_range(0..OBJECTS), value: noise(dice, VALUE).into() }
    }
}

/// The objects of one client, and the revisions it knows them at; clones share them.
#[derive(Clone)]
pub(super) struct Objects {
    client: KvClient<Channel>,
    owner: usize,
    known: Arc<Mutex<[i64; OBJECTS]>>,
}

impl Objects {
    pub(super) fn new(owner: usize, channel: Channel) -> Self {
        Self { client: KvClient::new(channel), owner, known: Arc::default() }
    }

    /// The key of an object.
    pub(super) fn key(&self, object: usize) -> Bytes {
        format!("/registry/pods/namespace-{:04}/pod-{object:02}", self.owner).into()
    }

    /// Writes an object unless somebody else has: then the answer says at which revision.
    pub(super) async fn update(mut self, Update { object, value }: Update) -> Result<(), Status> {
        let (key, known) = (self.key(object), self.known.lock()[object]);
        let compare = Compare {
            result: CompareResult::Equal as i32,
            target: CompareTarget::Mod as i32,
            key: key.clone(),
            target_union: Some(TargetUnion::ModRevision(known)),
            ..Default::default()
        };
        let op = |request| vec![RequestOp { request: Some(request) }];
        let put = op(Request::RequestPut(PutRequest { key: key.clone(), value, ..Default::default() }));
        let get = op(Request::RequestRange(RangeRequest { key, ..Default::default() }));
        let answer = self.client.txn(TxnRequest { compare: vec![compare], success: put, failure: get }).await?.into_inner();
        if !answer.succeeded {
            return Err(Status::aborted("nobody else writes this object, yet it was changed"));
        }
        self.known.lock()[object] = answer.header.map_or(0, |header| header.revision);
        Ok(())
    }
}

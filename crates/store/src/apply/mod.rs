//! Commands take effect: pure functions from a view and a command to an outcome and its effects.
//!
//! Every member applies the same commands in the same order and must come to the same state: no clock, no
//! randomness, no order but that of the keys.

pub mod alarm;
pub mod auth;
mod census;
mod compact;
mod delete_range;
pub mod downgrade;
pub mod lease;
pub mod member;
mod put;
pub mod txn;
pub mod view;
mod write;

pub use auth::TokenChange;
pub use lease::{Lease, LeaseChange};
pub use view::View;

use crate::{
    auth::{Caller, commands::permit},
    command::{Command, Done, Outcome, Response},
    disk,
    mvcc::{Event, Failure, Result},
    refusal::Refusal,
};
use write::Writer;

/// What a command came to, and what others want to know of it.
#[derive(Debug, PartialEq)]
pub struct Applied {
    /// For the one who proposed it.
    pub outcome: Outcome,
    /// For watchers: all at the outcome's revision, in order.
    pub events: Vec<Event>,
    /// For the lessor.
    pub leases: Vec<LeaseChange>,
    /// For the tokens given out.
    pub tokens: Vec<TokenChange>,
}

/// Applies one command. A refused one leaves the view as it was; only a failing disk is an error.
pub fn apply(view: &mut View<'_>, command: &Command) -> disk::Result<Applied> {
    let mut writer = Writer::new(view);
    let (caller, command) = asked(command);
    let result = match check(writer.view(), caller.as_ref(), command).and_then(|()| run(&mut writer, command)) {
        Ok(response) => Ok(response),
        Err(Failure::Refused(refusal)) => Err(refusal),
        Err(Failure::Disk(error)) => return Err(error),
    };
    Ok(writer.finish(result))
}

/// A command, and who asks for it.
fn asked(command: &Command) -> (Option<Caller>, &Command) {
    let caller = if let Command::By(by) = command { Some(by.caller()) } else { None };
    (caller, command.asked())
}

/// Alarms and lacking permission stand in a command's way.
fn check(view: &View<'_>, caller: Option<&Caller>, command: &Command) -> Result<()> {
    admit(view, command)?;
    permit(view.policy(), view, caller, command)
}

fn run(writer: &mut Writer<'_, '_>, command: &Command) -> Result<Response> {
    match command {
        Command::Put(put) => put::put(writer, put).map(Response::Put),
        Command::DeleteRange(delete) => delete_range::delete_range(writer, delete).map(Response::DeleteRange),
        Command::Txn(txn) => txn::txn(writer, txn).map(Response::Txn),
        Command::Compact(compact) => compact::compact(writer, *compact).map(done),
        Command::LeaseGrant(grant) => lease::grant(writer, *grant).map(Response::LeaseGrant),
        Command::LeaseRevoke(revoke) => lease::revoke(writer, *revoke).map(done),
        Command::LeaseCheckpoint(checkpoint) => lease::checkpoint(writer, checkpoint).map(done),
        Command::Alarm(alarm) => alarm::set(writer, *alarm).map(done),
        Command::MemberAttributes(attributes) => member::attributes(writer, attributes).map(done),
        Command::ClusterVersion(version) => member::cluster_version(writer, version).map(done),
        Command::Downgrade(downgrade) => downgrade::set(writer, downgrade).map(done),
        Command::Auth(change) => auth::change(writer, change),
        // Nobody asks for another.
        Command::By(_) => Err(Refusal::Unknown.into()),
    }
}

fn done((): ()) -> Response {
    Response::Done(Done {})
}

/// Alarms that stand in a command's way: corrupt data refuses all, lack of space what needs more of it.
fn admit(view: &View<'_>, command: &Command) -> std::result::Result<(), Refusal> {
    let needs_space = match command {
        Command::Put(_) | Command::LeaseGrant(_) => true,
        Command::Txn(txn) => txn::puts(txn),
        Command::DeleteRange(_) | Command::Compact(_) | Command::LeaseRevoke(_) => false,
        _ => return Ok(()),
    };
    match () {
        () if view.alarms.corrupt() => Err(Refusal::Corrupt),
        () if view.alarms.no_space() && needs_space => Err(Refusal::NoSpace),
        () => Ok(()),
    }
}

//! What commands that were applied add to the counters.

use std::time::Duration;

use super::Metrics;
use crate::command::{Command, Op, OpResponse, Outcome, Request, Response, Txn, TxnResponse};

/// Operations on keys within one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    ranges: u64,
    puts: u64,
    deletes: u64,
    /// Bytes of keys and values put.
    put_size: u64,
}

impl Metrics {
    /// Commands were applied as one batch, which took so long.
    pub(crate) fn applied(&self, commands: &[Command], outcomes: &[Outcome], took: Duration) {
        for (command, outcome) in commands.iter().zip(outcomes) {
            let success = if outcome.result.is_ok() { "true" } else { "false" };
            let labels = [("op", command.name()), ("success", success), ("version", "v3")];
            self.apply_duration.get_or_create(&labels).observe(took.as_secs_f64());
            if let Ok(response) = &outcome.result {
                self.count(command, response);
            }
        }
    }

    fn count(&self, command: &Command, response: &Response) {
        let command = command.asked();
        let tally = Tally::of(command, response);
        self.ranges.inc_by(tally.ranges);
        self.puts.inc_by(tally.puts);
        self.deletes.inc_by(tally.deletes);
        self.put_size.inc_by(tally.put_size as i64);
        if tally.ranges + tally.puts + tally.deletes > 1 {
            self.txns.inc();
        }
        match command {
            Command::LeaseGrant(grant) => {
                self.leases_granted.inc();
                self.lease_ttl.observe(grant.ttl as f64);
            }
            Command::LeaseRevoke(_) => {
                self.leases_revoked.inc();
            }
            _ => {}
        }
    }
}

impl Tally {
    fn of(command: &Command, response: &Response) -> Self {
        let mut tally = Tally::default();
        match (command, response) {
            (Command::Put(put), _) => tally.put(put.key.len() + put.value.len()),
            (Command::DeleteRange(_), _) => tally.deletes += 1,
            (Command::Txn(txn), Response::Txn(response)) => tally.txn(txn, response),
            _ => {}
        }
        tally
    }

    fn put(&mut self, size: usize) {
        self.puts += 1;
        self.put_size += size as u64;
    }

    fn txn(&mut self, txn: &Txn, response: &TxnResponse) {
        let branch = if response.succeeded { &txn.success } else { &txn.failure };
        branch.iter().zip(&response.responses).for_each(|(op, response)| self.op(op, response));
    }

    fn op(&mut self, op: &Op, response: &OpResponse) {
        match (&op.request, &response.response) {
            (Some(Request::Range(_)), _) => self.ranges += 1,
            (Some(Request::Put(put)), _) => self.put(put.key.len() + put.value.len()),
            (Some(Request::DeleteRange(_)), _) => self.deletes += 1,
            (Some(Request::Txn(txn)), Some(Response::Txn(response))) => self.txn(txn, response),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{DeleteRange, Put, PutResponse, Range, RangeResponse};

    fn put(key: &'static str, value: &'static str) -> Put {
        Put { key: key.into(), value: value.into(), ..Default::default() }
    }

    fn op(request: Request) -> Op {
        Op { request: Some(request) }
    }

    fn done(response: Response) -> OpResponse {
        OpResponse { response: Some(response) }
    }

    #[test]
    fn only_the_branch_that_ran_counts_nested_ones_too() {
        let nested = Txn { failure: vec![op(Request::Put(put("k", "123"))), op(Request::Range(Range::default()))], ..Default::default() };
        let success = vec![op(Request::DeleteRange(DeleteRange::default())), op(Request::Txn(nested))];
        let txn = Txn { success, failure: vec![op(Request::Put(put("never", "")))], ..Default::default() };
        let nested = vec![done(Response::Put(PutResponse::default())), done(Response::Range(RangeResponse::default()))];
        let nested = TxnResponse { succeeded: false, responses: nested };
        let responses = vec![done(Response::DeleteRange(Default::default())), done(Response::Txn(nested))];
        let response = Response::Txn(TxnResponse { succeeded: true, responses });
        let expected = Tally { ranges: 1, puts: 1, deletes: 1, put_size: 4 };
        assert_eq!(Tally::of(&Command::Txn(txn), &response), expected);
    }

    #[test]
    fn what_a_user_asked_for_counts_as_what_it_is() {
        let metrics = Metrics::new();
        let caller = crate::auth::Caller { user: "alice".into(), revision: 1 };
        let grant = Command::LeaseGrant(crate::command::LeaseGrant { id: 7, ttl: 60 });
        let granted = Outcome { revision: 1, result: Ok(Response::LeaseGrant(crate::command::LeaseGrant { id: 7, ttl: 60 })) };
        let accepted = Outcome { revision: 2, result: Ok(Response::Put(PutResponse::default())) };
        metrics.applied(&[grant.by(&caller), Command::Put(put("k", "v")).by(&caller)], &[granted, accepted], Duration::ZERO);
        assert_eq!((metrics.puts.get(), metrics.put_size.get(), metrics.leases_granted.get()), (1, 2, 1));
    }

    #[test]
    fn a_single_put_is_no_transaction_and_a_refused_one_is_nothing() {
        let metrics = Metrics::new();
        let command = Command::Put(put("k", "v"));
        let accepted = Outcome { revision: 2, result: Ok(Response::Put(PutResponse::default())) };
        let refused = Outcome { revision: 2, result: Err(crate::refusal::Refusal::NoSpace) };
        metrics.applied(&[command.clone(), command], &[accepted, refused], Duration::ZERO);
        assert_eq!((metrics.puts.get(), metrics.txns.get(), metrics.put_size.get()), (1, 0, 2));
    }
}

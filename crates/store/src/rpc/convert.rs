//! Between the wire's messages and the store's own. Moves; copies no value.

use crate::{command, mvcc, refusal::Refusal};
use bytes::Bytes;
use etcd::{
    etcdserverpb::{
        Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse, RequestOp, ResponseHeader,
        ResponseOp, TxnRequest, TxnResponse, compare::CompareTarget, compare::TargetUnion, request_op::Request, response_op::Response,
    },
    mvccpb,
};
use prost::Message;

pub(super) fn key_value(kv: mvcc::KeyValue) -> mvccpb::KeyValue {
    let mvcc::KeyValue { key, create_revision, mod_revision, version, value, lease } = kv;
    mvccpb::KeyValue { key, create_revision, mod_revision, version, value, lease }
}

fn key_values(kvs: Vec<mvcc::KeyValue>) -> Vec<mvccpb::KeyValue> {
    kvs.into_iter().map(key_value).collect()
}

/// An event's encoded form.
pub(super) fn encode_event(event: &mvcc::Event, with_prev: bool) -> Bytes {
    event.encoded(with_prev, |event| {
        let kind = match event.kind {
            mvcc::EventKind::Put => mvccpb::event::EventType::Put,
            mvcc::EventKind::Delete => mvccpb::event::EventType::Delete,
        };
        let prev_kv = event.prev_kv.clone().filter(|_| with_prev).map(key_value);
        let event = mvccpb::Event { r#type: kind as i32, kv: Some(key_value(event.kv.clone())), prev_kv };
        event.encode_to_vec().into()
    })
}

pub(super) fn range(request: RangeRequest) -> command::Range {
    command::Range {
        key: request.key,
        range_end: request.range_end,
        limit: request.limit,
        revision: request.revision,
        sort_order: request.sort_order,
        sort_target: request.sort_target,
        keys_only: request.keys_only,
        count_only: request.count_only,
        min_mod_revision: request.min_mod_revision,
        max_mod_revision: request.max_mod_revision,
        min_create_revision: request.min_create_revision,
        max_create_revision: request.max_create_revision,
    }
}

pub(super) fn put(request: PutRequest) -> command::Put {
    let PutRequest { key, value, lease, prev_kv, ignore_value, ignore_lease } = request;
    command::Put { key, value, lease, prev_kv, ignore_value, ignore_lease }
}

pub(super) fn delete_range(request: DeleteRangeRequest) -> command::DeleteRange {
    let DeleteRangeRequest { key, range_end, prev_kv } = request;
    command::DeleteRange { key, range_end, prev_kv }
}

pub(super) fn txn(request: TxnRequest) -> command::Txn {
    command::Txn {
        compares: request.compare.into_iter().map(compare).collect(),
        success: request.success.into_iter().map(op).collect(),
        failure: request.failure.into_iter().map(op).collect(),
    }
}

fn op(op: RequestOp) -> command::Op {
    let request = op.request.map(|request| match request {
        Request::RequestRange(request) => command::Request::Range(range(request)),
        Request::RequestPut(request) => command::Request::Put(put(request)),
        Request::RequestDeleteRange(request) => command::Request::DeleteRange(delete_range(request)),
        Request::RequestTxn(request) => command::Request::Txn(txn(request)),
    });
    command::Op { request }
}

/// The target says which field; an operand of another kind counts as its default.
fn compare(compare: Compare) -> command::Compare {
    let union = compare.target_union;
    macro_rules! operand {
        ($kind:ident) => {
            command::Operand::$kind(match union {
                Some(TargetUnion::$kind(operand)) => operand,
                _ => Default::default(),
            })
        };
    }
    let operand = CompareTarget::try_from(compare.target).ok().map(|target| match target {
        CompareTarget::Version => operand!(Version),
        CompareTarget::Create => operand!(CreateRevision),
        CompareTarget::Mod => operand!(ModRevision),
        CompareTarget::Value => operand!(Value),
        CompareTarget::Lease => operand!(Lease),
    });
    command::Compare { relation: compare.result, key: compare.key, range_end: compare.range_end, operand }
}

pub(super) fn range_response(response: command::RangeResponse, header: Option<ResponseHeader>) -> RangeResponse {
    RangeResponse { header, kvs: key_values(response.kvs), more: response.more, count: response.count }
}

pub(super) fn put_response(response: command::PutResponse, header: Option<ResponseHeader>) -> PutResponse {
    PutResponse { header, prev_kv: response.prev_kv.map(key_value) }
}

pub(super) fn delete_range_response(response: command::DeleteRangeResponse, header: Option<ResponseHeader>) -> DeleteRangeResponse {
    DeleteRangeResponse { header, deleted: response.deleted, prev_kvs: key_values(response.prev_kvs) }
}

/// The answer to a transaction that left the state at `revision`.
pub(super) fn txn_response(response: command::TxnResponse, header: Option<ResponseHeader>, revision: i64) -> Result<TxnResponse, Refusal> {
    let before = if some_changed(&response) { revision - 1 } else { revision };
    Within { now: before, written: revision }.txn(response, header)
}

/// The operation changed something.
fn changed(response: &command::Response) -> bool {
    match response {
        command::Response::Put(_) => true,
        command::Response::DeleteRange(response) => response.deleted > 0,
        command::Response::Txn(response) => some_changed(response),
        _ => false,
    }
}

fn some_changed(response: &command::TxnResponse) -> bool {
    response.responses.iter().filter_map(|response| response.response.as_ref()).any(changed)
}

/// Answers within a transaction carry only a revision: that of what is written once something is, before it the one
/// before. Nested transactions carry none. So does etcd.
struct Within {
    now: i64,
    written: i64,
}

impl Within {
    fn txn(&mut self, response: command::TxnResponse, header: Option<ResponseHeader>) -> Result<TxnResponse, Refusal> {
        let responses = response.responses.into_iter().map(|response| self.one(response)).collect::<Result<_, _>>()?;
        Ok(TxnResponse { header, succeeded: response.succeeded, responses })
    }

    fn one(&mut self, response: command::OpResponse) -> Result<ResponseOp, Refusal> {
        let response = response.response.ok_or(Refusal::Unknown)?;
        let nested = matches!(response, command::Response::Txn(_));
        if !nested && changed(&response) {
            self.now = self.written;
        }
        let header = Some(ResponseHeader { revision: self.now, ..Default::default() });
        let response = match response {
            command::Response::Range(response) => Response::ResponseRange(range_response(response, header)),
            command::Response::Put(response) => Response::ResponsePut(put_response(response, header)),
            command::Response::DeleteRange(response) => Response::ResponseDeleteRange(delete_range_response(response, header)),
            command::Response::Txn(response) => Response::ResponseTxn(self.txn(response, Some(ResponseHeader::default()))?),
            _ => return Err(Refusal::Unknown),
        };
        Ok(ResponseOp { response: Some(response) })
    }
}

//! How answers are written, each field of them.
//!
//! `@3` is a full header at the third revision since the conversation began, `~3` one that names neither cluster nor member,
//! `@none` one without a revision. `a=1 c1 m3 v2 l7` is a key with its value, create revision, mod revision, version and,
//! where it has one, lease. Long bytes show as their length.

use etcd::etcdserverpb::{
    AlarmMember, AlarmResponse, CompactionResponse, DeleteRangeResponse, HashKvResponse, HashResponse, LeaseGrantResponse,
    LeaseKeepAliveResponse, LeaseLeasesResponse, LeaseRevokeResponse, LeaseTimeToLiveResponse, Member, MemberAddResponse,
    MemberListResponse, MemberPromoteResponse, MemberRemoveResponse, MemberUpdateResponse, MoveLeaderResponse, PutResponse, RangeResponse,
    ResponseHeader, StatusResponse, TxnResponse, WatchResponse, response_op::Response,
};
use etcd::mvccpb::{Event, KeyValue, event::EventType};
use etcd::v3electionpb::{CampaignResponse, LeaderResponse, ProclaimResponse, ResignResponse};
use etcd::v3lockpb::{LockResponse, UnlockResponse};
use tonic::Status;

/// Bytes that are shown in full.
const SHORT: usize = 40;
/// Seconds that may pass between the granting of a lease and a question about it.
const MOMENT: i64 = 5;

/// What the numbers in an answer are told by.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) base: i64,
    pub(crate) cluster: u64,
    pub(crate) member: u64,
    pub(crate) term: u64,
}

/// An answer that can be written.
pub(crate) trait Text {
    fn text(&self, frame: &Frame) -> String;
}

/// An error as its client sees it.
pub(crate) fn refusal(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// Bytes.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    if bytes.len() > SHORT { format!("<{} bytes>", bytes.len()) } else { bytes.escape_ascii().to_string() }
}

/// Some of them, separated.
fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

impl Frame {
    pub(crate) fn header(&self, header: Option<&ResponseHeader>) -> String {
        let Some(header) = header else { return "headless".to_owned() };
        let revision = self.revision(header.revision);
        match (header.cluster_id, header.member_id, header.raft_term) {
            (0, 0, 0) => format!("~{revision}"),
            from if from == (self.cluster, self.member, self.term) => format!("@{revision}"),
            from => format!("@{revision} from {from:?}"),
        }
    }

    fn revision(&self, revision: i64) -> String {
        if revision == 0 { "none".to_owned() } else { (revision - self.base).to_string() }
    }

    pub(crate) fn kv(&self, kv: &KeyValue) -> String {
        let (created, modified) = (self.revision(kv.create_revision), self.revision(kv.mod_revision));
        let lease = if kv.lease == 0 { String::new() } else { format!(" l{}", kv.lease) };
        format!("{}={} c{created} m{modified} v{}{lease}", bytes(&kv.key), bytes(&kv.value), kv.version)
    }

    fn kvs(&self, kvs: &[KeyValue]) -> String {
        format!("[{}]", list(kvs, |kv| self.kv(kv)))
    }

    pub(crate) fn event(&self, event: &Event) -> String {
        let kind = match event.r#type() {
            EventType::Put => "PUT",
            EventType::Delete => "DELETE",
        };
        let kv = event.kv.as_ref().map_or_else(|| "nothing".to_owned(), |kv| self.kv(kv));
        format!("{kind} {kv}{}", self.before(event.prev_kv.as_ref()))
    }

    fn before(&self, kv: Option<&KeyValue>) -> String {
        kv.map(|kv| format!(" was {}", self.kv(kv))).unwrap_or_default()
    }

    pub(crate) fn member(&self, member: &Member) -> String {
        let who = if member.id == self.member { "self" } else { "other" };
        let role = if member.is_learner { " learner" } else { "" };
        format!("{who} {:?} peers {} clients {}{role}", member.name, member.peer_ur_ls.len(), member.client_ur_ls.len())
    }

    fn members(&self, members: &[Member]) -> String {
        format!("[{}]", list(members, |member| self.member(member)))
    }
}

macro_rules! texts {
    ($(|$answer:ident: $type:ident, $frame:ident| $text:expr;)*) => {$(
        impl Text for $type {
            fn text(&self, $frame: &Frame) -> String {
                let $answer = self;
                let rest: String = $text;
                let header = $frame.header($answer.header.as_ref());
                if rest.is_empty() { header } else { format!("{header} {rest}") }
            }
        }
    )*};
}

texts! {
    |answer: RangeResponse, frame| {
        let more = if answer.more { " and more" } else { "" };
        format!("{} of {}{more}", frame.kvs(&answer.kvs), answer.count)
    };
    |answer: PutResponse, frame| frame.before(answer.prev_kv.as_ref()).trim_start().to_owned();
    |answer: DeleteRangeResponse, frame| {
        let before = if answer.prev_kvs.is_empty() { String::new() } else { format!(" were {}", frame.kvs(&answer.prev_kvs)) };
        format!("deleted {}{before}", answer.deleted)
    };
    |answer: TxnResponse, frame| {
        let part = |part: &etcd::etcdserverpb::ResponseOp| match &part.response {
            Some(Response::ResponseRange(range)) => format!("range {}", range.text(frame)),
            Some(Response::ResponsePut(put)) => format!("put {}", put.text(frame)),
            Some(Response::ResponseDeleteRange(delete)) => format!("delete {}", delete.text(frame)),
            Some(Response::ResponseTxn(txn)) => format!("txn {}", txn.text(frame)),
            None => "nothing".to_owned(),
        };
        let parts = answer.responses.iter().map(part).collect::<Vec<_>>().join("; ");
        format!("{} {{{parts}}}", if answer.succeeded { "then" } else { "else" })
    };
    |answer: CompactionResponse, frame| String::new();
    |answer: LeaseGrantResponse, frame| format!("lease {} for {} s{}", answer.id, answer.ttl, answer.error);
    |answer: LeaseRevokeResponse, frame| String::new();
    |answer: LeaseKeepAliveResponse, frame| format!("lease {} for {} s", answer.id, answer.ttl);
    |answer: LeaseTimeToLiveResponse, frame| {
        let passed = answer.granted_ttl - answer.ttl;
        let left = if answer.ttl > 0 && (0..=MOMENT).contains(&passed) { "fresh".to_owned() } else { format!("{} s left", answer.ttl) };
        let mut keys = answer.keys.clone();
        // A set, in any order.
        keys.sort();
        format!("lease {} for {} s, {left} [{}]", answer.id, answer.granted_ttl, list(&keys, |key| bytes(key)))
    };
    |answer: LeaseLeasesResponse, frame| format!("[{}]", list(&answer.leases, |lease| lease.id.to_string()));
    |answer: AlarmResponse, frame| {
        let alarm = |alarm: &AlarmMember| {
            let who = if alarm.member_id == frame.member { "self".to_owned() } else { alarm.member_id.to_string() };
            format!("{who} {}", alarm.alarm().as_str_name())
        };
        format!("[{}]", list(&answer.alarms, alarm))
    };
    |answer: StatusResponse, frame| {
        let leads = if answer.leader == frame.member { "leads" } else { "follows" };
        let learns = if answer.is_learner { " learner" } else { "" };
        let applied = if answer.raft_applied_index <= answer.raft_index { "" } else { " ahead of its log" };
        let sizes = if (1..=answer.db_size).contains(&answer.db_size_in_use) { "sized" } else { "not sized" };
        let errors = if answer.errors.is_empty() { String::new() } else { format!(" {:?}", answer.errors) };
        let term = if answer.raft_term == frame.term { "" } else { " of another term" };
        format!("{leads}{learns}{term}{applied} {sizes}{errors}")
    };
    |answer: HashResponse, frame| String::new();
    |answer: HashKvResponse, frame| {
        let compacted = if answer.compact_revision < 0 { "never".to_owned() } else { frame.revision(answer.compact_revision) };
        format!("compacted {compacted} hashed {}", frame.revision(answer.hash_revision))
    };
    |answer: MoveLeaderResponse, frame| String::new();
    |answer: MemberListResponse, frame| frame.members(&answer.members);
    |answer: MemberAddResponse, frame| {
        format!("{} of {}", frame.members(answer.member.as_slice()), frame.members(&answer.members))
    };
    |answer: MemberRemoveResponse, frame| frame.members(&answer.members);
    |answer: MemberUpdateResponse, frame| frame.members(&answer.members);
    |answer: MemberPromoteResponse, frame| frame.members(&answer.members);
    |answer: LockResponse, frame| format!("locked {}", bytes(&answer.key));
    |answer: UnlockResponse, frame| String::new();
    |answer: CampaignResponse, frame| answer.leader.as_ref().map_or_else(String::new, |leader| {
        format!("{} by {} c{} l{}", bytes(&leader.name), bytes(&leader.key), frame.revision(leader.rev), leader.lease)
    });
    |answer: ProclaimResponse, frame| String::new();
    |answer: LeaderResponse, frame| answer.kv.as_ref().map_or_else(String::new, |kv| frame.kv(kv));
    |answer: ResignResponse, frame| String::new();
    |answer: WatchResponse, frame| {
        let flag = |set: bool, word: &str| if set { format!(" {word}") } else { String::new() };
        let created = flag(answer.created, "created") + &flag(answer.canceled, "canceled") + &flag(answer.fragment, "part");
        let compacted = flag(answer.compact_revision != 0, &format!("compacted {}", frame.revision(answer.compact_revision)));
        let reason = flag(!answer.cancel_reason.is_empty(), &format!("({})", answer.cancel_reason));
        let events = flag(!answer.events.is_empty(), &format!("[{}]", list(&answer.events, |event| frame.event(event))));
        format!("#{}{created}{compacted}{reason}{events}", answer.watch_id)
    };
}

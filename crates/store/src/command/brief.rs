//! A command in few words, for the log, in the form etcd writes requests there: keys and sizes, never values.

use super::{Command, Op, Put, Request, Txn};

/// Bytes of a key that are shown.
const KEY: usize = 128;
/// Operations of a transaction that are shown.
const OPERATIONS: usize = 4;

impl Command {
    /// What is asked for, shortened.
    pub fn brief(&self) -> String {
        match self.asked() {
            Command::Put(put) => format!("put:<{}>", of_put(put)),
            Command::DeleteRange(delete) => format!("delete_range:<{}>", range(&delete.key, &delete.range_end)),
            Command::Txn(txn) => format!("txn:<{}>", of_txn(txn)),
            Command::Compact(compact) => format!("compaction:<revision:{} >", compact.revision),
            Command::LeaseGrant(lease) => format!("lease_grant:<ttl:{} id:{:x} >", lease.ttl, lease.id),
            Command::LeaseRevoke(lease) => format!("lease_revoke:<id:{:x} >", lease.id),
            other => other.name().to_owned(),
        }
    }
}

fn of_put(put: &Put) -> String {
    let lease = if put.lease == 0 { String::new() } else { format!("lease:{} ", put.lease) };
    format!("key:{} value_size:{} {lease}", shown(&put.key), put.value.len())
}

fn range(key: &[u8], end: &[u8]) -> String {
    let end = if end.is_empty() { String::new() } else { format!("range_end:{} ", shown(end)) };
    format!("key:{} {end}", shown(key))
}

fn of_txn(txn: &Txn) -> String {
    let compared = txn.compares.iter().take(OPERATIONS).map(|compare| format!("compare:<{}> ", range(&compare.key, &compare.range_end)));
    let compared: String = compared.chain(more(txn.compares.len())).collect();
    format!("{compared}success:<{}> failure:<{}>", of_operations(&txn.success), of_operations(&txn.failure))
}

fn of_operations(operations: &[Op]) -> String {
    let shown = operations.iter().take(OPERATIONS).map(|operation| match &operation.request {
        Some(Request::Range(read)) => format!("request_range:<{}> ", range(&read.key, &read.range_end)),
        Some(Request::Put(put)) => format!("request_put:<{}> ", of_put(put)),
        Some(Request::DeleteRange(delete)) => format!("request_delete_range:<{}> ", range(&delete.key, &delete.range_end)),
        Some(Request::Txn(txn)) => format!("request_txn:<{} operations> ", txn.success.len() + txn.failure.len()),
        None => String::new(),
    });
    shown.chain(more(operations.len())).collect()
}

fn more(count: usize) -> Option<String> {
    count.checked_sub(OPERATIONS).filter(|more| *more > 0).map(|more| format!("and {more} more "))
}

fn shown(key: &[u8]) -> String {
    let cut = &key[..key.len().min(KEY)];
    format!("\"{}\"{}", cut.escape_ascii(), if cut.len() < key.len() { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        auth::Caller,
        command::{Compare, DeleteRange},
    };

    fn put(key: impl Into<bytes::Bytes>) -> Put {
        Put { key: key.into(), value: "secret".into(), ..Default::default() }
    }

    #[test]
    fn keys_and_sizes_are_shown_but_no_values() {
        let caller = Caller { user: "u".into(), revision: 1 };
        assert_eq!(Command::Put(put("a\n")).by(&caller).brief(), r#"put:<key:"a\n" value_size:6 >"#);
        let delete = DeleteRange { key: "a".into(), range_end: "b".into(), ..Default::default() };
        assert_eq!(Command::DeleteRange(delete).brief(), r#"delete_range:<key:"a" range_end:"b" >"#);
        let op = |request| Op { request: Some(request) };
        let txn = Txn {
            compares: vec![Compare { key: "a".into(), ..Default::default() }],
            success: vec![op(Request::Put(Put { lease: 7, ..put("a") }))],
            failure: vec![op(Request::Range(Default::default()))],
        };
        let told = r#"txn:<compare:<key:"a" > success:<request_put:<key:"a" value_size:6 lease:7 > > failure:<request_range:<key:"" > >>"#;
        assert_eq!(Command::Txn(txn).brief(), told);
    }

    #[test]
    fn however_large_a_command_is_few_words_tell_of_it() {
        let many = |count| (0..count).map(|_| Op { request: Some(Request::Put(put(vec![b'k'; 10_000]))) }).collect();
        let brief = Command::Txn(Txn { success: many(1000), ..Default::default() }).brief();
        assert!(brief.len() < 1000 && brief.contains("and 996 more"), "{} bytes: {brief}", brief.len());
    }
}

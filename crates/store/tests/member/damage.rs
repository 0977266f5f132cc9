//! Files that are not what was written: refused with their name, or told from a crash; never served.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::support::{Cluster, Member, eventually, get, put};

/// Keys of a member whose files are damaged.
const KEYS: u64 = 400;

/// What is written under a key: noise that no compression makes smaller.
fn value(key: u64) -> String {
    let mut state = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + (state % 90) as u8)
    };
    (0..2000).map(letter).collect()
}

/// A member that wrote, flushed tables, and was killed; what it logged so far.
async fn killed() -> (Cluster, usize) {
    let mut cluster = Cluster::start_with(1, &["--snapshot-count", "100"]).await;
    let member = &mut cluster.members[0];
    member.wait_for_leader().await;
    for key in 0..KEYS {
        put(&mut member.kv(), &format!("k{key}"), &value(key)).await.unwrap();
    }
    eventually("a snapshot is taken", async || member.logged().contains("took a snapshot").then_some(())).await;
    member.kill();
    let said = member.logged().len();
    (cluster, said)
}

/// Files below a member's directory whose names end so, the largest first.
fn files(member: &Member, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&member.data_dir.join("member"), ending, &mut found);
    found.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).unwrap().len()));
    assert!(!found.is_empty(), "no file *{ending}");
    found
}

fn collect(directory: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, ending, found),
            false if path.to_str().unwrap().ends_with(ending) => found.push(path),
            false => {}
        }
    }
}

fn flip_a_bit(path: &Path, at: usize) {
    // Another name for the same file, in a snapshot, must not be damaged with it.
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 4;
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Starts it: it must end at once, having named `what`.
fn is_refused(member: &mut Member, said: usize, what: &str) {
    member.start();
    assert!(!member.wait_for_end().success());
    let log = member.logged()[said..].to_owned();
    assert!(log.contains("error: ") && log.contains(what), "{what}: {log}");
}

async fn holds_everything(member: &Member) {
    member.wait_for_leader().await;
    for key in 0..KEYS {
        let found = eventually("it reads", async || get(&mut member.kv(), &format!("k{key}")).await.ok()).await;
        assert!(found == Some(value(key)), "k{key} is {found:?}");
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_log_is_refused() {
    let (mut cluster, said) = killed().await;
    let member = &mut cluster.members[0];
    let log = files(member, ".log").into_iter().find(|path| path.parent().unwrap().ends_with("raft")).unwrap();
    let middle = fs::metadata(&log).unwrap().len() as usize / 2;
    flip_a_bit(&log, middle);
    is_refused(member, said, "Corruption");
}

#[tokio::test]
async fn a_half_written_record_at_the_logs_end_is_a_crash_and_costs_nothing() {
    let (mut cluster, _) = killed().await;
    let member = &mut cluster.members[0];
    let log = files(member, ".log").into_iter().find(|path| path.parent().unwrap().ends_with("raft")).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    // The beginning of a record, as one that was being written.
    let head = bytes[..16].to_vec();
    bytes.extend_from_slice(&head);
    fs::write(&log, bytes).unwrap();
    member.start();
    holds_everything(member).await;
    put(&mut member.kv(), "next", "1").await.unwrap();
}

#[tokio::test]
async fn a_flipped_bit_in_a_table_is_never_served() {
    let (mut cluster, said) = killed().await;
    let member = &mut cluster.members[0];
    let tables = files(member, ".sst").into_iter().filter(|path| path.to_str().unwrap().contains("/kv-"));
    for table in tables.take(2) {
        let middle = fs::metadata(&table).unwrap().len() as usize / 2;
        flip_a_bit(&table, middle);
    }
    member.start();
    // What lies in other blocks may be read; whatever is read is right, and what is damaged is not.
    let mut refused = 0;
    for key in 0..KEYS {
        match eventually("it answers or has ended", async || answer(member, key).await).await {
            Some(found) => assert!(found == value(key), "k{key} is {found:?}"),
            None => refused += 1,
        }
    }
    assert!(refused > 0, "the damage was not noticed");
    assert!(member.logged()[said..].contains("Corruption"), "{}", member.logged());
}

/// A value, or `Some(None)` when it is refused; none when the member is not there yet.
async fn answer(member: &Member, key: u64) -> Option<Option<String>> {
    match get(&mut member.kv(), &format!("k{key}")).await {
        Ok(Some(value)) => Some(Some(value)),
        Ok(None) => panic!("k{key} is gone"),
        Err(_) if member.logged().contains("Corruption") => Some(None),
        Err(_) => None,
    }
}

#[tokio::test]
async fn a_missing_table_is_refused_with_its_name() {
    let (mut cluster, said) = killed().await;
    let member = &mut cluster.members[0];
    let tables = files(member, ".sst").into_iter().filter(|path| path.to_str().unwrap().contains("/kv-"));
    let table = tables.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    fs::remove_file(&table).unwrap();
    is_refused(member, said, table.file_name().unwrap().to_str().unwrap());
}

#[tokio::test]
async fn a_damaged_list_of_tables_is_refused() {
    for database in ["raft", "kv-"] {
        let (mut cluster, said) = killed().await;
        let member = &mut cluster.members[0];
        let all = files(member, "").into_iter().filter(|path| path.to_str().unwrap().contains(&format!("/member/{database}")));
        let list = all.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("MANIFEST")).unwrap();
        flip_a_bit(&list, 20);
        is_refused(member, said, "Corruption");
    }
}

//! `bench-api` measures what it says it does: a small run of every case.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use tests::{binary, run};

/// Everything once, as small as it makes sense.
const SMALL: [&str; 18] = [
    "--seconds",
    "0.3",
    "--warm-up",
    "0.1",
    "--clients",
    "1,3",
    "--deletes",
    "20",
    "--pods",
    "150",
    "--lists",
    "2",
    "--watchers",
    "40",
    "--definitions",
    "4",
    "--starts",
    "2",
];

/// The cells of the row whose case begins so.
fn row<'a>(table: &'a str, case: &str) -> Vec<&'a str> {
    let line = table.lines().find(|line| line.starts_with(&format!("| {case}"))).unwrap_or_else(|| panic!("no {case} in\n{table}"));
    line.split('|').map(str::trim).collect()
}

#[test]
fn every_case_is_measured_without_an_error() {
    let table = run(Command::new(binary("bench-api")).args(SMALL)).ok();
    let cases = [
        "create, 1 client",
        "create, 3 clients",
        "get, 3 clients",
        "update, 3 clients",
        "patch, 3 clients",
        "delete, 3 clients",
        "lease, 3 clients",
        "update to 40 watchers",
        "create pods up to 150",
        "list 150 pods, JSON |",
        "list 150 pods, Table",
        "list 150 pods, metadata only",
        "list 150 pods, label selector",
        "list 150 pods, field selector",
        "create 4 definitions",
        "OpenAPI of core, first",
        "start to /readyz",
    ];
    for case in cases {
        let row = row(&table, case);
        assert!(row[2].parse::<f64>().unwrap() > 0.0 && row[8] == "–", "{row:?}");
    }
    assert!(row(&table, "idle")[6].parse::<f64>().unwrap() > 1.0, "memory of the process that was found by its port:\n{table}");
    let mebibytes = |form: &str| row(&table, &format!("list 150 pods, {form}"))[9].trim_end_matches(" MiB").parse::<f64>().unwrap();
    assert!(mebibytes("JSON |") > 0.4 && mebibytes("label") < 0.1 && mebibytes("label") == mebibytes("field"), "{table}");
}

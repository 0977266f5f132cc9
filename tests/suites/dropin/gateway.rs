//! JSON over HTTP: the same requests to both, one after the other, and the same answers.

use serde_json::{Value, json};
use tests::Maker;

use crate::process::{MAKERS, Member};
use crate::web::{self, lines, post};

/// What differs from one start to the next, or what etcd 3.5 does not tell.
const OWN: [&str; 12] = [
    "cluster_id",
    "member_id",
    "raft_term",
    "raftTerm",
    "raftIndex",
    "raftAppliedIndex",
    "dbSize",
    "dbSizeInUse",
    "dbSizeQuota",
    "storageVersion",
    "downgradeInfo",
    "details",
];

/// Path and request, in the order in which they are sent.
const TALK: &[(&str, &str)] = &[
    ("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#),
    ("/v3/kv/put", r#"{"key":"Zm9v","value":"YmF6","prev_kv":true}"#),
    ("/v3/kv/put", r#"{"key":"Zm9v","value":"YmF6","prevKv":true}"#),
    ("/v3/kv/range", r#"{"key":"Zm9v"}"#),
    ("/v3/kv/range", r#"{"key":"Zg==","range_end":"eg==","limit":"1","sort_order":"DESCEND","sort_target":"MOD"}"#),
    ("/v3/kv/range", r#"{"key":"AA==","range_end":"AA==","count_only":true}"#),
    ("/v3/kv/range", r#"{"key":"Zm9v","sort_order":1,"limit":5,"unknown_field":1}"#),
    ("/v3/kv/range", r#"{"key":"bm90aGluZw=="}"#),
    ("/v3/kv/range", r#"{}"#),
    ("/v3/kv/range", ""),
    ("/v3/kv/range", r#"{"key":"Zm9v","revision":"1000"}"#),
    (
        "/v3/kv/txn",
        r#"{"compare":[{"result":"EQUAL","target":"VERSION","key":"Zm9v","version":"3"}],
            "success":[{"request_put":{"key":"Yg==","value":"MQ=="}},{"request_range":{"key":"Zm9v"}}],
            "failure":[{"request_range":{"key":"Zm9v"}}]}"#,
    ),
    (
        "/v3/kv/txn",
        r#"{"compare":[{"target":"CREATE","key":"Zm9v","createRevision":"0"}],"success":[],
            "failure":[{"requestDeleteRange":{"key":"Yg==","prev_kv":true}},{"request_txn":{}}]}"#,
    ),
    ("/v3/kv/deleterange", r#"{"key":"Zm9v"}"#),
    ("/v3/kv/deleterange", r#"{"key":"Zm9v"}"#),
    ("/v3/kv/compaction", r#"{"revision":"3"}"#),
    ("/v3/kv/compaction", r#"{"revision":"3"}"#),
    ("/v3/kv/compaction", r#"{"revision":"3000"}"#),
    ("/v3/kv/range", r#"{"key":"Zm9v","revision":"2"}"#),
    ("/v3/lease/grant", r#"{"TTL":"1000","ID":"7587848943239572225"}"#),
    ("/v3/lease/grant", r#"{"TTL":"1000","ID":"7587848943239572225"}"#),
    ("/v3/kv/put", r#"{"key":"bA==","value":"MQ==","lease":"7587848943239572225"}"#),
    ("/v3/kv/put", r#"{"key":"bA==","value":"MQ==","lease":"9"}"#),
    ("/v3/lease/leases", r#"{}"#),
    ("/v3/kv/lease/leases", r#"{}"#),
    ("/v3/lease/keepalive", r#"{"ID":"7587848943239572225"}"#),
    ("/v3/lease/keepalive", r#"{"ID":"9"}"#),
    ("/v3/lease/timetolive", r#"{"ID":"9"}"#),
    ("/v3/kv/lease/revoke", r#"{"ID":"7587848943239572225"}"#),
    ("/v3/lease/revoke", r#"{"ID":"7587848943239572225"}"#),
    ("/v3/maintenance/status", r#"{}"#),
    ("/v3/maintenance/alarm", r#"{}"#),
    ("/v3/maintenance/alarm", r#"{"action":"ACTIVATE","alarm":"NOSPACE","memberID":"1"}"#),
    ("/v3/maintenance/alarm", r#"{"action":"DEACTIVATE","alarm":"NOSPACE","memberID":"1"}"#),
    ("/v3/maintenance/defragment", r#"{}"#),
    ("/v3/maintenance/transfer-leadership", r#"{"targetID":"5"}"#),
    ("/v3/auth/status", r#"{}"#),
    ("/v3/auth/role/add", r#"{"name":"reader"}"#),
    ("/v3/auth/role/add", r#"{"name":"reader"}"#),
    ("/v3/auth/role/grant", r#"{"name":"reader","perm":{"permType":"READ","key":"YQ==","range_end":"Yg=="}}"#),
    ("/v3/auth/role/get", r#"{"role":"reader"}"#),
    ("/v3/auth/role/list", r#"{}"#),
    ("/v3/auth/user/add", r#"{"name":"root","password":"secret"}"#),
    ("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#),
    ("/v3/auth/user/get", r#"{"name":"nobody"}"#),
    ("/v3/auth/user/list", r#"{}"#),
    ("/v3/auth/authenticate", r#"{"name":"root","password":"secret"}"#),
    ("/v3/auth/role/revoke", r#"{"role":"reader","key":"YQ==","range_end":"Yg=="}"#),
    ("/v3/auth/role/delete", r#"{"role":"reader"}"#),
    ("/v3/auth/user/changepw", r#"{"name":"root","password":"other"}"#),
    ("/v3/auth/user/delete", r#"{"name":"root"}"#),
    ("/v3/election/leader", r#"{"name":"ZQ=="}"#),
    ("/v3beta/kv/range", r#"{"key":"bA=="}"#),
];

fn cleaned(value: Value) -> Value {
    match value {
        Value::Object(mut fields) => {
            // The gateway of 3.5 says a failure twice.
            if fields.contains_key("code") && fields.get("error") == fields.get("message") {
                fields.remove("error");
            }
            let kept = fields.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
            kept.map(|(name, value)| (name, cleaned(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(cleaned).collect(),
        other => other,
    }
}

fn without(mut value: Value, names: &[&str]) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|name, _| !names.contains(&name.as_str()));
    }
    value
}

fn read(text: &str) -> Value {
    cleaned(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

#[test]
fn the_same_requests_have_the_same_answers() {
    let [ours, theirs] = MAKERS.map(|maker| Member::plain(maker, &["--bcrypt-cost=4"]));
    for (number, (path, body)) in TALK.iter().enumerate() {
        let [our, their] = [&ours, &theirs].map(|member| post(member.client, path, body));
        assert_eq!(our.code, their.code, "{number} {path} {body}: {our:?} {their:?}");
        let told =
            [&our, &their].map(|answer| without(read(&answer.body), if path.ends_with("/status") { &["leader", "version"] } else { &[] }));
        assert_eq!(told[0], told[1], "{number} {path} {body}");
        let json = |answer: &web::Answer| answer.head.contains("content-type: application/json");
        assert!(json(&our) && json(&their), "{number} {path}: {our:?} {their:?}");
    }
}

#[test]
fn what_is_no_request_is_refused_with_the_same_codes() {
    let [ours, theirs] = MAKERS.map(|maker| Member::plain(maker, &[]));
    for (path, body) in [
        ("/v3/kv/put", "{"),
        ("/v3/kv/put", "[]"),
        ("/v3/kv/put", r#"{"key":"!"}"#),
        ("/v3/kv/put", r#"{"key":"Zm9v","lease":"many"}"#),
        ("/v3/kv/range", r#"{"sort_order":"SIDEWAYS"}"#),
    ] {
        let [our, their] = [&ours, &theirs].map(|member| post(member.client, path, body));
        assert_eq!((our.code, their.code), (400, 400), "{path} {body}: {our:?} {their:?}");
        assert_eq!((&read(&our.body)["code"], &read(&their.body)["code"]), (&json!(3), &json!(3)), "{path} {body}");
    }
    for path in ["/v3/nonsense", "/v3/kv/nonsense"] {
        assert_eq!([&ours, &theirs].map(|member| post(member.client, path, "{}").code), [404, 404], "{path}");
    }
    let refused = web::ask(ours.client, "GET", "/v3/kv/range", "", "").unwrap();
    assert_eq!((refused.code, &read(&refused.body)["code"]), (501, &json!(12)), "as the gateway of 3.6 says it");
}

#[test]
fn members_are_listed_and_hashes_told() {
    for maker in MAKERS {
        let member = Member::plain(maker, &[]);
        let list: Value = serde_json::from_str(&post(member.client, "/v3/cluster/member/list", "{}").body).unwrap();
        let listed = &list["members"][0];
        assert_eq!(listed["name"], "default", "{list}");
        assert_eq!(listed["peerURLs"], json!([format!("http://127.0.0.1:{}", member.peer)]), "{list}");
        assert_eq!(listed["clientURLs"], json!([format!("http://127.0.0.1:{}", member.client)]), "{list}");
        assert_eq!(listed["ID"], list["header"]["member_id"], "{list}");
        let hash: Value = serde_json::from_str(&post(member.client, "/v3/maintenance/hash", "{}").body).unwrap();
        assert!(hash["hash"].is_u64(), "{maker:?} {hash}");
    }
}

#[test]
fn a_watch_goes_on_line_by_line() {
    for maker in MAKERS {
        let member = Member::plain(maker, &[]);
        post(member.client, "/v3/kv/put", r#"{"key":"Zm9v","value":"MQ=="}"#);
        let mut told = lines(member.client, "/v3/watch", r#"{"create_request":{"key":"Zm9v","start_revision":"2","prev_kv":true}}"#);
        let mut next = || read(&told.next().unwrap());
        assert_eq!(next(), json!({"result": {"header": {"revision": "2"}, "created": true}}), "{maker:?}");
        let put = json!({"key": "Zm9v", "create_revision": "2", "mod_revision": "2", "version": "1", "value": "MQ=="});
        assert_eq!(next(), json!({"result": {"header": {"revision": "2"}, "events": [{"kv": put}]}}), "{maker:?}");
        post(member.client, "/v3/kv/deleterange", r#"{"key":"Zm9v"}"#);
        let deleted = json!({"type": "DELETE", "kv": {"key": "Zm9v", "mod_revision": "3"}, "prev_kv": put});
        assert_eq!(next(), json!({"result": {"header": {"revision": "3"}, "events": [deleted]}}), "{maker:?}");
    }
}

#[test]
fn a_snapshot_comes_in_lines_of_base64() {
    for maker in MAKERS {
        let member = Member::plain(maker, &[]);
        let told = lines(member.client, "/v3/maintenance/snapshot", "{}");
        let blobs = told.take_while(|line| !line.is_empty()).map(|line| serde_json::from_str::<Value>(&line).unwrap());
        assert!(blobs.map(|line| line["result"]["blob"].as_str().map_or(0, str::len)).sum::<usize>() > 10_000, "{maker:?}");
    }
}

#[test]
fn a_lock_and_an_election_are_won() {
    for maker in MAKERS {
        let member = Member::plain(maker, &[]);
        let answer = |path: &str, body: &str| read(&post(member.client, path, body).body);
        answer("/v3/lease/grant", r#"{"TTL":"1000","ID":"16"}"#);
        assert_eq!(answer("/v3/lock/lock", r#"{"name":"bG9jaw==","lease":"16"}"#)["key"], "bG9jay8xMA==", "{maker:?}");
        assert_eq!(answer("/v3/lock/unlock", r#"{"key":"bG9jay8xMA=="}"#), json!({"header": {"revision": "3"}}), "{maker:?}");
        let won = answer("/v3/election/campaign", r#"{"name":"ZQ==","lease":"16","value":"bWU="}"#);
        assert_eq!(won["leader"]["key"], "ZS8xMA==", "{maker:?}: {won}");
        assert_eq!(answer("/v3/election/leader", r#"{"name":"ZQ=="}"#)["kv"]["value"], "bWU=", "{maker:?}");
    }
}

#[test]
fn a_token_lets_in_whom_it_names() {
    for maker in MAKERS {
        let member = Member::plain(maker, &["--bcrypt-cost=4"]);
        let ask = |path: &str, body: &str, headers: &str| web::ask(member.client, "POST", path, headers, body).unwrap();
        ask("/v3/auth/user/add", r#"{"name":"root","password":"secret"}"#, "");
        ask("/v3/auth/role/add", r#"{"name":"root"}"#, "");
        ask("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#, "");
        assert_eq!(ask("/v3/auth/enable", "{}", "").code, 200, "{maker:?}");
        let put = r#"{"key":"YQ==","value":"MQ=="}"#;
        let refused = ask("/v3/kv/put", put, "");
        assert_eq!((refused.code, &read(&refused.body)["code"]), (400, &json!(3)), "{maker:?} {refused:?}");
        let wrong = ask("/v3/kv/put", put, "Authorization: nonsense\r\n");
        assert_eq!((wrong.code, &read(&wrong.body)["code"]), (401, &json!(16)), "{maker:?} {wrong:?}");
        let told = ask("/v3/auth/authenticate", r#"{"name":"root","password":"secret"}"#, "");
        let token = read(&told.body)["token"].as_str().unwrap().to_owned();
        assert_eq!(ask("/v3/kv/put", put, &format!("Authorization: {token}\r\n")).code, 200, "{maker:?}");
        assert_eq!(ask("/v3/kv/put", put, &format!("Grpc-Metadata-Token: {token}\r\n")).code, 200, "{maker:?}");
    }
}

#[test]
fn without_the_gateway_its_paths_are_not_there() {
    let member = Member::plain(Maker::Ours, &["--enable-grpc-gateway=false"]);
    assert_eq!(post(member.client, "/v3/kv/range", r#"{"key":"YQ=="}"#).code, 404);
}

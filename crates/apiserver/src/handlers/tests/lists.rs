//! What lists and watches show of which version.

use super::*;

/// An API whose store can forget.
fn forgetful() -> (Service, Memory) {
    let (loopback, memory) = (Loopback::default(), Memory::new());
    let hub = Hub::new(Arc::new(memory.clone()), "/registry", &Wiring::default(), Chain::default(), loopback.clone());
    (api_of(Arc::new(hub), &loopback), memory)
}

fn names(answer: &Answer) -> Vec<&str> {
    let items = answer.body["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

fn version(answer: &Answer) -> &str {
    answer.body["metadata"]["resourceVersion"].as_str().unwrap()
}

#[tokio::test]
async fn the_first_page_of_a_version_is_of_exactly_that_version() {
    let api = api();
    for name in ["x", "y"] {
        post(&api, MAPS, &map(name, "1")).await;
    }
    let then = version(&get(&api, MAPS).await).to_owned();
    post(&api, MAPS, &map("w", "1")).await;
    let page = get(&api, &format!("{MAPS}?resourceVersion={then}&limit=1")).await;
    assert_eq!((names(&page), version(&page)), (vec!["x"], then.as_str()));
    let newer = get(&api, &format!("{MAPS}?resourceVersion={then}&resourceVersionMatch=NotOlderThan&limit=1")).await;
    assert_eq!(names(&newer), ["w"]);
    assert_eq!(names(&get(&api, &format!("{MAPS}?resourceVersion={then}")).await), ["w", "x", "y"]);
}

#[tokio::test]
async fn a_list_of_whatever_is_at_hand_comes_in_one_page() {
    let api = api();
    for name in ["x", "y", "z"] {
        post(&api, MAPS, &map(name, "1")).await;
    }
    let whole = get(&api, &format!("{MAPS}?resourceVersion=0&limit=1")).await;
    assert_eq!((names(&whole), &whole.body["metadata"]["continue"]), (vec!["x", "y", "z"], &Value::Null));
}

#[tokio::test]
async fn pages_of_a_forgotten_version_go_on_inconsistently_if_asked_to() {
    let (api, memory) = forgetful();
    for name in ["x", "y", "z"] {
        post(&api, MAPS, &map(name, "1")).await;
    }
    let page = get(&api, &format!("{MAPS}?limit=1")).await;
    let token = page.body["metadata"]["continue"].as_str().unwrap();
    post(&api, MAPS, &map("y-new", "1")).await;
    memory.compact(u64::MAX);
    let expired = get(&api, &format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!((expired.code, expired.body["reason"].as_str()), (410, Some("Expired")));
    let token = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = get(&api, &format!("{MAPS}?limit=5&continue={token}")).await;
    assert_eq!(names(&rest), ["y", "y-new", "z"]);
    let exact = get(&api, &format!("{MAPS}?resourceVersion=2&resourceVersionMatch=Exact")).await;
    assert_eq!((exact.code, exact.body["message"].as_str()), (410, Some("The resourceVersion for the provided list is too old.")));
}

#[tokio::test]
async fn both_groups_show_and_select_the_same_events() {
    let api = api();
    let (core, new) = ("/api/v1/namespaces/a/events", "/apis/events.k8s.io/v1/namespaces/a/events");
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "a"}, "message": "m",
        "reason": "Why", "type": "Normal", "source": {"component": "c"}, "count": 3});
    assert_eq!(post(&api, core, &event).await.code, 201);
    let seen = get(&api, &format!("{new}?fieldSelector=regarding.kind%3DPod")).await;
    assert_eq!(names(&seen), ["e"]);
    let item = &seen.body["items"][0];
    assert_eq!((&item["note"], &item["regarding"]["name"], &item["deprecatedCount"]), (&json!("m"), &json!("p"), &json!(3)));
    assert_eq!(names(&get(&api, &format!("{core}?fieldSelector=involvedObject.kind%3DPod,source%3Dc")).await), ["e"]);
    assert_eq!(names(&get(&api, &format!("{new}?fieldSelector=regarding.kind%3DNode")).await), Vec::<&str>::new());
    for (url, label) in [(core, "regarding.kind"), (new, "involvedObject.kind"), (new, "source")] {
        let refused = get(&api, &format!("{url}?fieldSelector={label}%3DPod")).await;
        assert_eq!(
            (refused.code, refused.body["message"].as_str().unwrap()),
            (400, format!("field label not supported: {label}").as_str())
        );
    }
}

/// The events of a watch that ends by itself.
async fn events(api: &Service, url: &str) -> Vec<Value> {
    let answer = send(api, "GET", &format!("{url}&watch=1&timeoutSeconds=1"), &[], Body::empty()).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let text = match &answer.body {
        Value::String(lines) => lines.clone(),
        one => one.to_string(),
    };
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_watch_that_begins_with_the_state_tells_where_that_ends() {
    let api = api();
    post(&api, MAPS, &map("x", "1")).await;
    for version in ["", "0"] {
        let told = events(&api, &format!("{MAPS}?resourceVersion={version}&allowWatchBookmarks=true")).await;
        let end = &told[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
        assert_eq!((told.len(), &told[0]["type"], end), (2, &json!("ADDED"), &json!("true")));
    }
    assert_eq!(events(&api, &format!("{MAPS}?resourceVersion=0")).await.len(), 1);
}

#[tokio::test]
async fn a_watch_of_a_forgotten_version_says_so_in_its_only_event() {
    let (api, memory) = forgetful();
    for name in ["x", "y", "z"] {
        post(&api, MAPS, &map(name, "1")).await;
    }
    memory.compact(u64::MAX);
    let told = events(&api, &format!("{MAPS}?resourceVersion=2")).await;
    assert_eq!((told.len(), &told[0]["type"], &told[0]["object"]["code"]), (1, &json!("ERROR"), &json!(410)));
    assert_eq!(told[0]["object"]["reason"], "Expired");
}

#[tokio::test]
async fn what_is_no_version_or_token_is_told_in_upstreams_words() {
    let api = api();
    let why = "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax";
    let text = |answer: &Answer| (answer.code, answer.body["message"].as_str().unwrap_or_default().to_owned());
    assert_eq!(text(&get(&api, &format!("{MAPS}?resourceVersion=x")).await), (400, format!("invalid resource version: {why}")));
    assert_eq!(text(&get(&api, &format!("{MAPS}?resourceVersion=x&watch=1")).await), (500, why.to_owned()));
    assert_eq!(text(&get(&api, &format!("{MAPS}/x?resourceVersion=x")).await), (500, why.to_owned()));
    let token = "invalid continue token: continue key is not valid: illegal base64 data at input byte 1";
    assert_eq!(text(&get(&api, &format!("{MAPS}?continue=a.b")).await), (400, token.to_owned()));
}

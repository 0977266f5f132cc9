//! Objects go with their owners, or stay without them, as the owner's deletion asked; finalizers hold; namespaces empty.
//!
//! One cluster serves all cases, each in a namespace of its own. That something stays is seen when something else, looked at
//! later, has gone.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tests::{Cluster, within};

const HOLD: &str = "example.com/hold";
const WAIT: Duration = Duration::from_secs(60);

#[test]
fn owners_take_their_dependents_along_as_asked() {
    let cluster = Cluster::up(&["--runtime", "hollow", "--restart"]);
    cluster.wait_for_nodes();
    let cases: [fn(&Cluster); 9] = [
        kubectl_cascades_in_three_ways,
        chains_go_from_the_top_or_from_the_bottom,
        one_solid_owner_is_enough_to_stay,
        references_to_nobody_are_garbage_and_wrong_ones_are_told,
        owners_without_a_namespace_and_kinds_unknown,
        finalizers_and_old_options_decide_as_policies_do,
        collections_are_deleted_with_each_policy,
        jobs_let_go_of_their_pods,
        a_namespace_says_what_keeps_it,
    ];
    std::thread::scope(|scope| {
        let cluster = &cluster;
        for case in cases {
            scope.spawn(move || case(cluster));
        }
    });
    owners_deleted_while_nobody_looks_are_found_later(&cluster);
}

/// A namespace and the ConfigMaps in it.
struct Space<'a> {
    cluster: &'a Cluster,
    name: &'a str,
}

impl<'a> Space<'a> {
    fn new(cluster: &'a Cluster, name: &'a str) -> Self {
        cluster.kubectl(&["create", "namespace", name]).ok();
        Self { cluster, name }
    }

    fn kubectl(&self, args: &[&str]) -> tests::Output {
        self.cluster.kubectl(&[args, &["-n", self.name]].concat())
    }

    /// Creates ConfigMaps with these owners and finalizers, and gives them back as the server has them.
    fn maps(&self, maps: &[(&str, &[Value], &[&str])]) -> Vec<Value> {
        let object = |(name, owners, finalizers): &(&str, &[Value], &[&str])| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": self.name, "labels": {"case": name}, "ownerReferences": owners, "finalizers": finalizers}})
        };
        create(self.cluster, maps.iter().map(object).collect())
    }

    fn map(&self, name: &str) -> Option<Value> {
        self.cluster.get(&["configmap", name, "-n", self.name])
    }

    fn delete(&self, name: &str, policy: &str) {
        self.kubectl(&["delete", "configmap", name, "--wait=false", &format!("--cascade={policy}")]).ok();
    }

    fn url(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{}/configmaps{name}", self.name)
    }

    fn release(&self, name: &str) {
        self.kubectl(&["patch", "configmap", name, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]).ok();
    }

    /// Waits until none of these is left.
    fn gone(&self, names: &[&str]) {
        within(WAIT, &format!("{names:?} are gone from {}", self.name), || {
            let left: Vec<_> = names.iter().filter(|name| self.map(name).is_some()).collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    }

    /// Waits until the object is so.
    fn becomes(&self, name: &str, what: &str, so: impl Fn(&Value) -> bool) {
        within(WAIT, &format!("{name} in {} {what}", self.name), || match self.map(name) {
            Some(map) if so(&map) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    fn is_without_owners(&self, name: &str) {
        self.becomes(name, "has no owner", |map| map["metadata"]["ownerReferences"].is_null());
    }

    fn waits(&self, name: &str) {
        self.becomes(name, "waits for its dependents", |map| {
            map["metadata"]["deletionTimestamp"].is_string() && map["metadata"]["finalizers"] == json!(["foregroundDeletion"])
        });
    }

    fn terminates(&self, name: &str) {
        self.becomes(name, "is being deleted", |map| map["metadata"]["deletionTimestamp"].is_string());
    }
}

fn create(cluster: &Cluster, items: Vec<Value>) -> Vec<Value> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let made = cluster.kubectl_with_input(&["create", "-f", "-", "-o", "json"], &list.to_string()).ok();
    serde_json::Deserializer::from_str(&made).into_iter().map(Result::unwrap).collect()
}

fn owner(object: &Value, blocks: bool) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "blockOwnerDeletion": blocks})
}

fn kubectl_cascades_in_three_ways(cluster: &Cluster) {
    let space = Space::new(cluster, "cascade");
    for name in ["background", "foreground", "orphan"] {
        space.kubectl(&["create", "deployment", name, "--image=web:1"]).ok();
    }
    let left = |name: &str| {
        let left = cluster.get(&["replicasets,pods", "-n", "cascade", "-l", &format!("app={name}")]).unwrap();
        left["items"].as_array().unwrap().clone()
    };
    for name in ["background", "foreground", "orphan"] {
        space.kubectl(&["rollout", "status", "deployment", name, "--timeout=60s"]).ok();
    }
    space.kubectl(&["delete", "deployment", "orphan", "--cascade=orphan", "--timeout=60s"]).ok();
    let orphans = left("orphan");
    assert_eq!(orphans.len(), 2, "{orphans:?}");
    let set = orphans.iter().find(|object| object["kind"] == "ReplicaSet").unwrap();
    assert!(set["metadata"]["ownerReferences"].is_null(), "{set}");
    space.kubectl(&["delete", "deployment", "foreground", "--cascade=foreground", "--timeout=60s"]).ok();
    assert_eq!(left("foreground"), [Value::Null; 0], "all dependents went before their owner");
    space.kubectl(&["delete", "deployment", "background", "--cascade=background", "--timeout=60s"]).ok();
    within(WAIT, "the dependents go too", || if left("background").is_empty() { Ok(()) } else { Err(String::new()) });
    assert_eq!(left("orphan").len(), 2, "orphans stay");
    space.kubectl(&["create", "deployment", "orphan", "--image=web:1"]).ok();
    within(WAIT, "the new Deployment adopts the old ReplicaSet", || {
        let adopted = left("orphan")
            .iter()
            .any(|object| object["metadata"]["uid"] == set["metadata"]["uid"] && !object["metadata"]["ownerReferences"].is_null());
        if adopted { Ok(()) } else { Err(format!("{:?}", left("orphan"))) }
    });
}

fn chains_go_from_the_top_or_from_the_bottom(cluster: &Cluster) {
    let space = Space::new(cluster, "chains");
    let chain = |names: [&str; 3], held: &[&str]| {
        let top = space.maps(&[(names[0], &[], &[])]);
        let middle = space.maps(&[(names[1], &[owner(&top[0], true)], &[])]);
        space.maps(&[(names[2], &[owner(&middle[0], true)], held)]);
    };
    chain(["a1", "a2", "a3"], &[]);
    chain(["b1", "b2", "b3"], &[HOLD]);
    space.delete("b1", "foreground");
    space.terminates("b3");
    space.waits("b2");
    space.waits("b1");
    space.delete("a1", "background");
    space.gone(&["a1", "a2", "a3"]);
    space.waits("b1");
    space.release("b3");
    space.gone(&["b1", "b2", "b3"]);
    // A circle of owners in the foreground does not wait for itself.
    let one = space.maps(&[("one", &[], &[])]);
    let two = space.maps(&[("two", &[owner(&one[0], true)], &[])]);
    let circle = json!({"metadata": {"ownerReferences": [owner(&two[0], true)]}}).to_string();
    space.kubectl(&["patch", "configmap", "one", "--type=merge", "-p", &circle]).ok();
    space.delete("one", "foreground");
    space.gone(&["one", "two"]);
}

fn one_solid_owner_is_enough_to_stay(cluster: &Cluster) {
    let space = Space::new(cluster, "owners");
    let made = space.maps(&[("solid", &[], &[]), ("waiting", &[], &[]), ("careless", &[], &[])]);
    let [solid, waiting, careless] = [0, 1, 2].map(|number| owner(&made[number], true));
    let absent = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "absent"});
    let free = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "careless", "uid": careless["uid"], "blockOwnerDeletion": false});
    space.maps(&[
        ("both", &[solid.clone(), waiting.clone()], &[]),
        ("held", std::slice::from_ref(&waiting), &[HOLD]),
        ("dangling", &[absent, solid.clone()], &[]),
        ("free", &[free], &[HOLD]),
    ]);
    let has_only_the_solid = |map: &Value| {
        let owners = map["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| owners.len() == 1 && owners[0]["uid"] == solid["uid"])
    };
    space.becomes("dangling", "loses the reference to nobody", has_only_the_solid);
    space.delete("waiting", "foreground");
    space.becomes("both", "loses the reference to the owner that goes", has_only_the_solid);
    space.terminates("held");
    space.waits("waiting");
    // Who does not block its owner goes too, but is not waited for.
    space.delete("careless", "foreground");
    space.gone(&["careless"]);
    space.terminates("free");
    space.release("held");
    space.gone(&["waiting", "held"]);
    assert!(space.map("both").unwrap()["metadata"]["deletionTimestamp"].is_null());
    space.release("free");
}

fn references_to_nobody_are_garbage_and_wrong_ones_are_told(cluster: &Cluster) {
    let (space, other) = (Space::new(cluster, "wrong"), Space::new(cluster, "elsewhere"));
    let here = owner(&space.maps(&[("here", &[], &[])])[0], true);
    let there = owner(&other.maps(&[("there", &[], &[])])[0], true);
    let with = |mut reference: Value, field: &str, text: &str| {
        reference[field] = text.into();
        reference
    };
    space.maps(&[
        ("absent", &[with(with(here.clone(), "uid", "nobody"), "name", "nobody")], &[]),
        ("wrong-uid", &[with(here.clone(), "uid", "another")], &[]),
        ("wrong-name", &[with(here.clone(), "name", "another")], &[]),
        ("right", std::slice::from_ref(&here), &[]),
        ("cross", std::slice::from_ref(&there), &[]),
    ]);
    space.gone(&["absent", "wrong-uid", "wrong-name", "cross"]);
    assert!(space.map("right").is_some() && other.map("there").is_some());
    let uid = there["uid"].as_str().unwrap();
    let text = format!("ownerRef [v1/ConfigMap, namespace: wrong, name: there, uid: {uid}] does not exist in namespace \"wrong\"");
    within(WAIT, "the event names the reference", || {
        let events =
            space.kubectl(&["get", "events", "--field-selector=reason=OwnerRefInvalidNamespace", "-o", "jsonpath={.items[*].message}"]).out;
        if events.contains(&text) { Ok(()) } else { Err(events) }
    });
}

fn owners_without_a_namespace_and_kinds_unknown(cluster: &Cluster) {
    let space = Space::new(cluster, "clusterwide");
    let class = |name: &str, owners: &[Value]| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name, "ownerReferences": owners}, "value": 1});
    let here = owner(&space.maps(&[("here", &[], &[])])[0], true);
    // An owner in some namespace: nobody can tell in which.
    let made = create(cluster, vec![class("garbage-owner", &[]), class("garbage-dependent", &[here])]);
    let above = owner(&made[0], true);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"});
    let old = json!({"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "d", "uid": "d"});
    space.maps(&[("below", &[above], &[]), ("of-a-widget", &[widget], &[]), ("of-an-old-version", &[old], &[])]);
    let absent = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "absent-2"});
    space.maps(&[("later", &[absent], &[])]);
    space.gone(&["later"]);
    assert!(["below", "of-a-widget", "of-an-old-version"].iter().all(|name| space.map(name).is_some()));
    assert!(cluster.get(&["priorityclass", "garbage-dependent"]).is_some());
    cluster.kubectl(&["delete", "priorityclass", "garbage-owner"]).ok();
    space.gone(&["below"]);
    cluster.kubectl(&["delete", "priorityclass", "garbage-dependent"]).ok();
}

fn finalizers_and_old_options_decide_as_policies_do(cluster: &Cluster) {
    let space = Space::new(cluster, "options");
    let made = space.maps(&[
        ("set-orphan", &[], &["orphan"]),
        ("set-foreground", &[], &["foregroundDeletion"]),
        ("old-true", &[], &[]),
        ("old-false", &[], &[]),
    ]);
    let below = ["below-orphan", "below-foreground", "below-true", "below-false"];
    for (name, above) in below.iter().zip(&made) {
        let held: &[&str] = if *name == "below-foreground" { &[HOLD] } else { &[] };
        space.maps(&[(name, &[owner(above, true)], held)]);
    }
    let delete = |name: &str, options: &Value| {
        space.cluster.kubectl_with_input(&["delete", "--raw", &space.url(&format!("/{name}")), "-f", "-"], &options.to_string()).ok();
    };
    let said_nothing = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    delete("set-orphan", &said_nothing);
    delete("set-foreground", &said_nothing);
    delete("old-true", &json!({"apiVersion": "v1", "kind": "DeleteOptions", "orphanDependents": true}));
    delete("old-false", &json!({"apiVersion": "v1", "kind": "DeleteOptions", "orphanDependents": false}));
    space.gone(&["set-orphan", "old-true", "old-false", "below-false"]);
    space.is_without_owners("below-orphan");
    space.is_without_owners("below-true");
    space.waits("set-foreground");
    space.release("below-foreground");
    space.gone(&["set-foreground", "below-foreground"]);
}

fn collections_are_deleted_with_each_policy(cluster: &Cluster) {
    let space = Space::new(cluster, "collections");
    let made = space.maps(&[("background", &[], &[]), ("foreground", &[], &[]), ("orphan", &[], &[])]);
    let below: Vec<_> = made.iter().map(|above| [owner(above, true)]).collect();
    space.maps(&[("below-background", &below[0], &[]), ("below-foreground", &below[1], &[HOLD]), ("below-orphan", &below[2], &[])]);
    for (name, policy) in [("background", "Background"), ("foreground", "Foreground"), ("orphan", "Orphan")] {
        let url = space.url(&format!("?labelSelector=case%3D{name}&propagationPolicy={policy}"));
        cluster.kubectl(&["delete", "--raw", &url]).ok();
    }
    space.gone(&["background", "below-background", "orphan"]);
    space.is_without_owners("below-orphan");
    space.waits("foreground");
    space.release("below-foreground");
    space.gone(&["foreground", "below-foreground"]);
}

/// A job's pods are held until their ends are counted; without the job nobody counts them.
fn jobs_let_go_of_their_pods(cluster: &Cluster) {
    let space = Space::new(cluster, "jobs");
    let pods = |name: &str| {
        let pods = cluster.get(&["pods", "-n", "jobs", "-l", &format!("job-name={name}")]).unwrap();
        pods["items"].as_array().unwrap().clone()
    };
    for name in ["background", "foreground", "orphan"] {
        space.kubectl(&["create", "job", name, "--image=job:1"]).ok();
    }
    for name in ["background", "foreground", "orphan"] {
        within(WAIT, "the job has a pod that is held", || match pods(name).as_slice() {
            [pod] if pod["metadata"]["finalizers"] == json!(["batch.kubernetes.io/job-tracking"]) => Ok(()),
            pods => Err(format!("{pods:?}")),
        });
        space.kubectl(&["delete", "job", name, &format!("--cascade={name}"), "--timeout=60s"]).ok();
    }
    within(WAIT, "the pods of the jobs deleted with them are gone", || {
        let left = [pods("background"), pods("foreground")].concat();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    within(WAIT, "the orphan is held by nobody", || match pods("orphan").as_slice() {
        [pod] if pod["metadata"]["finalizers"].is_null() && pod["metadata"]["ownerReferences"].is_null() => Ok(()),
        pods => Err(format!("{pods:?}")),
    });
}

fn a_namespace_says_what_keeps_it(cluster: &Cluster) {
    let space = Space::new(cluster, "kept");
    space.maps(&[("free", &[], &[]), ("held", &[], &[HOLD])]);
    let finalize = |finalizers: Value| {
        let mut namespace = cluster.get(&["namespace", "kept"]).unwrap();
        namespace["spec"]["finalizers"] = finalizers;
        cluster.kubectl_with_input(&["replace", "--raw", "/api/v1/namespaces/kept/finalize", "-f", "-"], &namespace.to_string()).ok();
    };
    finalize(json!(["kubernetes", "example.com/last"]));
    cluster.kubectl(&["delete", "namespace", "kept", "--wait=false"]).ok();
    let conditions = || {
        let namespace = cluster.get(&["namespace", "kept"]).unwrap();
        assert_eq!(namespace["status"]["phase"], "Terminating");
        namespace["status"]["conditions"].as_array().cloned().unwrap_or_default()
    };
    let message = |kind: &str, status: &str| {
        let conditions = conditions();
        let found = conditions.iter().find(|condition| condition["type"] == kind && condition["status"] == status);
        found.map(|condition| condition["message"].as_str().unwrap().to_owned())
    };
    within(WAIT, "the conditions say what remains and why", || {
        let said = [message("NamespaceContentRemaining", "True"), message("NamespaceFinalizersRemaining", "True")];
        let wanted = [
            "Some resources are remaining: configmaps. has 1 resource instances",
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
        ];
        if said.iter().zip(wanted).all(|(said, wanted)| said.as_deref() == Some(wanted)) {
            Ok(())
        } else {
            Err(format!("{:?}", conditions()))
        }
    });
    let refused = space.kubectl(&["create", "configmap", "late"]);
    let text = "because it is being terminated";
    assert!(refused.code != 0 && refused.err.contains(text), "{refused:?}");
    space.release("held");
    within(WAIT, "only the finalizer of somebody else is left", || {
        let finalizers = cluster.get(&["namespace", "kept"]).unwrap()["spec"]["finalizers"].take();
        if finalizers == json!(["example.com/last"]) { Ok(()) } else { Err(finalizers.to_string()) }
    });
    assert_eq!(message("NamespaceContentRemaining", "False").as_deref(), Some("All content successfully removed"));
    finalize(json!([]));
    assert!(cluster.get(&["namespace", "kept"]).is_none());
}

/// Runs last: nobody else has a collector meanwhile.
fn owners_deleted_while_nobody_looks_are_found_later(cluster: &Cluster) {
    let space = Space::new(cluster, "later");
    let made = space.maps(&[("background", &[], &[]), ("foreground", &[], &[]), ("orphan", &[], &[])]);
    let below: Vec<_> = made.iter().map(|above| [owner(above, true)]).collect();
    space.maps(&[("below-background", &below[0], &[]), ("below-foreground", &below[1], &[]), ("below-orphan", &below[2], &[])]);
    cluster.signal("controller-manager", Signal::SIGSTOP);
    for policy in ["background", "foreground", "orphan"] {
        space.delete(policy, policy);
    }
    space.terminates("foreground");
    space.terminates("orphan");
    assert!(space.map("background").is_none() && space.map("below-background").is_some());
    cluster.signal("controller-manager", Signal::SIGKILL);
    space.gone(&["below-background", "foreground", "below-foreground", "orphan"]);
    space.is_without_owners("below-orphan");
}

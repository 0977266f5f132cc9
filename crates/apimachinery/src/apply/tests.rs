use super::*;
use crate::schema::sample;
use serde_json::json;

mod properties;

fn gvk() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Pod")
}

struct Kind {
    schema: Schema,
    gvk: GroupVersionKind,
    ignored: FieldSet,
    versions: Option<&'static dyn Versions>,
}

impl Kind {
    fn new() -> Self {
        Self { schema: sample::pod(), gvk: gvk(), ignored: FieldSet::default(), versions: None }
    }

    fn context(&self) -> Context<'_> {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        Context { schema: &self.schema, gvk: &self.gvk, subresource: "", ignored: &self.ignored, now, versions: self.versions }
    }

    fn decode(&self, value: &Value) -> Object {
        Object::from_value(self.schema.decode_value(value).unwrap().value).unwrap()
    }

    fn updated(&self, live: Option<&Object>, value: Value, manager: &str) -> Object {
        let mut new = self.decode(&with_type(value));
        let live = live.cloned().unwrap_or_else(|| empty(&self.context()));
        update(&live, &mut new, manager, &self.context());
        stored(new)
    }

    fn applied(&self, live: Option<&Object>, config: Value, manager: &str, force: bool) -> Result<Object, Error> {
        let live = live.cloned().unwrap_or_else(|| empty(&self.context()));
        let object = apply(&live, &with_type(config), manager, force, &self.context())?;
        Ok(stored(self.decode(&object.value())))
    }
}

fn with_type(mut value: Value) -> Value {
    value["apiVersion"] = "v1".into();
    value["kind"] = "Pod".into();
    value
}

/// A stored object has a uid, by which an update is told from a create. The sample's metadata has no such field, nor managed ones.
fn stored(mut object: Object) -> Object {
    object.set_uid("u");
    object
}

fn fields(object: &Object) -> Value {
    let entries = object.meta().get("managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
    entries.iter().map(|entry| (entry["manager"].as_str().unwrap().to_owned(), entry["fieldsV1"].clone())).collect()
}

#[test]
fn a_create_owns_what_the_empty_object_does_not_have() {
    let kind = Kind::new();
    let spec = json!({"containers": [{"name": "c", "ports": [{"port": 80}]}], "selector": {"matchLabels": {"a": "b"}}});
    let object = kind.updated(None, json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec}), "m");
    assert_eq!(
        fields(&object),
        json!({"m": {
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {
                ".": {},
                "f:containers": {
                    ".": {},
                    "k:{\"name\":\"c\"}": {
                        ".": {}, "f:name": {}, "f:resources": {},
                        "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
                    },
                },
                "f:selector": {},
            },
        }})
    );
}

#[test]
fn an_apply_owns_what_it_sets() {
    let kind = Kind::new();
    let object =
        kind.applied(None, json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}), "m", false).unwrap();
    let spec = json!({"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}});
    assert_eq!(fields(&object), json!({"m": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": spec}}));
}

#[test]
fn another_value_for_a_managed_field_conflicts_unless_forced() {
    let kind = Kind::new();
    let config = |image: &str| json!({"spec": {"containers": [{"name": "c", "image": image}]}});
    let live = kind.applied(None, config("i:1"), "m1", false).unwrap();
    let error = kind.applied(Some(&live), config("i:2"), "m2", false).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"m1\": .spec.containers[name=\"c\"].image");
    let status = Status::from(error);
    assert_eq!((status.code, &*status.causes()[0].message), (409, "conflict with \"m1\""));

    let forced = kind.applied(Some(&live), config("i:2"), "m2", true).unwrap();
    assert_eq!(forced.pointer("/spec/containers/0/image").unwrap(), "i:2");
    assert!(fields(&forced)["m1"].pointer("/f:spec/f:containers/k:{\"name\":\"c\"}/f:image").is_none());
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let kind = Kind::new();
    let live = kind.updated(None, json!({"spec": {"grace": 1, "count": 1}}), "m1");
    let error = kind.applied(Some(&live), json!({"spec": {"grace": 2, "count": 2}}), "m2", false).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 2 conflicts: conflicts with \"m1\" using v1:\n- .spec.count\n- .spec.grace");
}

#[test]
fn fields_given_up_go_unless_another_manager_has_them() {
    let kind = Kind::new();
    let both = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    let live = kind.applied(None, both, "m1", false).unwrap();
    let live = kind.applied(Some(&live), json!({"metadata": {"labels": {"b": "2"}}}), "m2", false).unwrap();
    let live = kind.applied(Some(&live), json!({"metadata": {"labels": {}}}), "m1", false).unwrap();
    assert_eq!(live.labels(), [("b".to_owned(), "2".to_owned())].into());
}

#[test]
fn list_items_given_up_go_with_all_that_is_theirs() {
    let kind = Kind::new();
    let two = json!({"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}});
    let live = kind.applied(None, two, "m", false).unwrap();
    let live = kind.applied(Some(&live), json!({"spec": {"containers": [{"name": "b", "image": "i"}]}}), "m", false).unwrap();
    let names: Vec<_> = live.pointer("/spec/containers").unwrap().as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn sets_merge_and_atomic_lists_are_one_field() {
    let kind = Kind::new();
    let live = kind.applied(None, json!({"metadata": {"finalizers": ["a", "b"]}}), "m1", false).unwrap();
    let live = kind.applied(Some(&live), json!({"metadata": {"finalizers": ["c", "b"]}}), "m2", false).unwrap();
    assert_eq!(live.finalizers(), ["a", "c", "b"]);
    assert_eq!(fields(&live)["m2"], json!({"f:metadata": {"f:finalizers": {"v:\"b\"": {}, "v:\"c\"": {}}}}));
    let live = kind.applied(None, json!({"spec": {"volumes": ["x"]}}), "m1", false).unwrap();
    let error = kind.applied(Some(&live), json!({"spec": {"volumes": ["y"]}}), "m2", false).unwrap_err();
    assert_eq!(error, Error::Conflicts(vec![("\"m1\"".into(), ".spec.volumes".into())]));
}

#[test]
fn an_update_takes_what_it_changes_and_removes() {
    let kind = Kind::new();
    let live = kind.applied(None, json!({"metadata": {"labels": {"a": "1", "b": "2"}}}), "m1", false).unwrap();
    let changed =
        kind.updated(Some(&live), json!({"metadata": {"labels": {"a": "9"}, "managedFields": live.meta()["managedFields"]}}), "m2");
    assert_eq!(fields(&changed), json!({"m2": {"f:metadata": {"f:labels": {"f:a": {}}}}}));
}

#[test]
fn what_was_there_before_the_first_apply_has_a_manager_of_its_own() {
    let kind = Kind::new();
    let live = stored(kind.decode(&with_type(json!({"metadata": {"labels": {"a": "1"}}}))));
    let object = kind.applied(Some(&live), json!({"metadata": {"labels": {"a": "1"}}}), "m", false).unwrap();
    assert_eq!(fields(&object)["before-first-apply"], json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}));
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_client() {
    let kind = Kind::new();
    let last = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "1", "b": "2"}}}).to_string();
    let created = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {LAST_APPLIED: last}}});
    let live = kind.updated(None, created, "kubectl-client-side-apply");
    let config = json!({"metadata": {"labels": {"a": "3"}}});
    assert!(kind.applied(Some(&live), config.clone(), "other", false).is_err());
    let object = kind.applied(Some(&live), config, "kubectl", false).unwrap();
    assert_eq!(object.label("a"), Some("3"));
    let annotation = object.annotation(LAST_APPLIED).unwrap();
    assert_eq!(annotation, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"labels\":{\"a\":\"3\"}}}\n");
}

#[test]
fn ignored_fields_are_nobodys() {
    let kind = Kind { ignored: FieldSet::of(["spec"]), ..Kind::new() };
    let live = kind.applied(None, json!({"metadata": {"labels": {"a": "1"}}, "spec": {"grace": 1}}), "m", false).unwrap();
    assert_eq!(fields(&live), json!({"m": {"f:metadata": {"f:labels": {"f:a": {}}}}}));
}

#[test]
fn managed_fields_can_be_reset_but_not_by_mistake() {
    let kind = Kind::new();
    let live = kind.applied(None, json!({"metadata": {"labels": {"a": "1"}}}), "m", false).unwrap();
    let after = |managed: Value| {
        let mut new = live.clone();
        new.meta_mut().insert("managedFields".into(), managed);
        update(&live, &mut new, "u", &kind.context());
        fields(&new)
    };
    assert_eq!(after(json!([])), json!({}));
    assert_eq!(after(json!([{}])), json!({}));
    assert_eq!(after(json!([{"manager": "x", "operation": "Nope"}])), fields(&live));
    let mut new = live.clone();
    new.meta_mut().remove("managedFields");
    update(&live, &mut new, "u", &kind.context());
    assert_eq!(fields(&new), fields(&live));
}

#[test]
fn configurations_that_do_not_fit_are_refused_in_upstreams_words() {
    let kind = Kind::new();
    let error = |config: Value| kind.applied(None, config, "m", false).unwrap_err().to_string();
    let prefix = "failed to create typed patch object (/a; /v1, Kind=Pod): ";
    let named = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let cases = [
        (json!({"bogus": 1}), ".spec.bogus: field not declared in schema"),
        (json!({"grace": "x"}), ".spec.grace: expected numeric (int or float), got string"),
        (json!({"containers": [{"name": "c"}, {"name": "c"}]}), ".spec.containers: duplicate entries for key [name=\"c\"]"),
        (
            json!({"containers": [{"image": "i"}]}),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] \
             (and doesn't have default values for any key fields)",
        ),
    ];
    for (spec, message) in cases {
        assert_eq!(error(named(spec)), format!("{prefix}{message}"));
    }
    let other = apply(&empty(&kind.context()), &json!({}), "m", false, &kind.context()).unwrap_err();
    assert_eq!(other, Error::BadRequest("invalid object type: /, Kind=".into()));
}

#[test]
fn only_the_latest_updaters_are_kept_apart() {
    let kind = Kind::new();
    let mut labels = json!({});
    let mut live: Option<Object> = None;
    for number in 0..14 {
        labels[format!("l{number:02}")] = "x".into();
        live = Some(kind.updated(live.as_ref(), json!({"metadata": {"labels": labels}}), &format!("m{number:02}")));
    }
    let fields = fields(&live.unwrap());
    assert_eq!(fields.as_object().unwrap().len(), 10);
    assert!(fields["ancient-changes"].pointer("/f:metadata/f:labels/f:l00").is_some());
}

#[test]
fn times_alone_are_no_difference() {
    let kind = Kind::new();
    let a = kind.updated(None, json!({"metadata": {"labels": {"a": "1"}}}), "m");
    let mut b = a.clone();
    b.pointer_mut("/metadata/managedFields/0").unwrap()["time"] = "2030-01-01T00:00:00Z".into();
    assert!(a != b && same_but_for_times(&a, &b));
    b.set_label("a", "2");
    assert!(!same_but_for_times(&a, &b));
}

/// A kind whose version v0 says of one container what v1 says of many, and calls it `box`.
#[derive(Debug)]
struct OneBox;

impl Versions for OneBox {
    fn convert(&self, object: &Object, api_version: &str) -> InVersion {
        let mut object = object.clone();
        match api_version {
            "v0" => {
                let image = object.pointer("/spec/containers/0/image").cloned().unwrap_or_default();
                object.0.insert("spec".into(), json!({"class": image}));
                InVersion::Converted(object, sample::pod())
            }
            "v2" => InVersion::Failed,
            _ => InVersion::Unknown,
        }
    }
}

fn managed_in(version: &str, spec: Value) -> Value {
    json!({"manager": version, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": spec}})
}

#[test]
fn who_manages_fields_of_another_version_loses_them_when_they_change_there() {
    let kind = Kind { versions: Some(&OneBox), ..Kind::new() };
    let pod = |image: &str| json!({"spec": {"containers": [{"name": "c", "image": image}]}});
    let mut live = stored(kind.decode(&with_type(pod("i:1"))));
    let unchanged = json!({"f:containers": {"k:{\"name\":\"c\"}": {"f:image": {}}}});
    let entries =
        json!([managed_in("v0", json!({"f:class": {}})), managed_in("v2", unchanged), managed_in("gone", json!({"f:class": {}}))]);
    live.meta_mut().insert("managedFields".into(), entries);
    let conflict = kind.applied(Some(&live), pod("i:2"), "m", false).unwrap_err();
    let expected = [("\"v0\" using v0", ".spec.class"), ("\"v2\" using v2", ".spec.containers[name=\"c\"].image")];
    assert_eq!(conflict, Error::Conflicts(expected.map(|(manager, path)| (manager.into(), path.into())).to_vec()));
    let mut changed = with_type(pod("i:2"));
    changed["metadata"]["managedFields"] = live.meta()["managedFields"].clone();
    assert_eq!(fields(&kind.updated(Some(&live), changed, "u")).as_object().unwrap().keys().collect::<Vec<_>>(), ["u"]);
    let same = kind.updated(Some(&live), live.value(), "u");
    assert_eq!(fields(&same).as_object().unwrap().keys().collect::<Vec<_>>(), ["v0", "v2"]);
}

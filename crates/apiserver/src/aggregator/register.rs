//! APIServices for what this server serves itself: made for built-in groups when it starts, and kept for custom resources as
//! long as they are defined. Upstream: `autoregister` and `crdregistration`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apimachinery::{Object, status::Status};
use component::backoff::Backoff;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::priorities::{self, Priority};
use super::service::{ALWAYS, ApiService, MANAGED, ON_START, name_of};
use super::work::Work;
use crate::informer::Cache;
use crate::loopback::Api;

/// So many objects are written together.
const AT_ONCE: usize = 16;

/// The groups and versions a definition serves.
pub(super) type Defined = Vec<(String, String)>;

/// Reads a definition.
pub(super) fn defined(definition: Object) -> Option<Defined> {
    let group = definition.str_at("/spec/group").to_owned();
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    let served = versions.iter().filter(|version| version["served"] == true);
    Some(served.filter_map(|version| Some((group.clone(), version["name"].as_str()?.to_owned()))).collect())
}

/// An APIService there is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    group: String,
    version: String,
    priority: Priority,
    /// Made when the server starts; what becomes of it later is left alone.
    once: bool,
}

impl Wanted {
    fn spec(&self) -> Value {
        let mut spec = json!({
            "version": self.version, "groupPriorityMinimum": self.priority.group, "versionPriority": self.priority.version,
        });
        if !self.group.is_empty() {
            spec["group"] = self.group.as_str().into();
        }
        spec
    }

    fn is(&self, found: &ApiService) -> bool {
        let plain = found.backend.is_none();
        plain && (&found.group, &found.version, found.priority) == (&self.group, &self.version, self.priority)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    Keep,
    Create,
    Update,
    Delete,
}

/// What to do about one name. `done`: it was looked at with success before; `at_start`: it was there when the server started.
fn plan(wanted: Option<&Wanted>, found: Option<&ApiService>, done: bool, at_start: bool) -> Action {
    let managed = found.and_then(|found| found.object.label(MANAGED));
    match (wanted, found) {
        (None, None) => Action::Keep,
        (Some(wanted), _) if wanted.once && done => Action::Keep,
        (Some(_), None) => Action::Create,
        _ if managed != Some(ON_START) && managed != Some(ALWAYS) => Action::Keep,
        _ if managed == Some(ON_START) && (!at_start || done) => Action::Keep,
        (None, Some(_)) => Action::Delete,
        (Some(wanted), Some(found)) if wanted.is(found) => Action::Keep,
        (Some(_), Some(_)) => Action::Update,
    }
}

/// Makes them.
pub(super) struct Registrar {
    pub(super) api: Api,
    pub(super) services: Arc<Cache<ApiService>>,
    pub(super) definitions: Arc<Cache<Defined>>,
    /// Told of changes of both.
    pub(super) work: Arc<Work>,
    /// Built-in groups and versions.
    pub(super) builtin: Vec<(String, String)>,
    /// Set once all built-in ones are there.
    pub(super) complete: Arc<AtomicBool>,
}

impl Registrar {
    /// Goes on until dropped.
    pub(super) async fn run(self) {
        let (mut done, mut at_start) = (BTreeSet::new(), None);
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(10));
        loop {
            self.work.changed().await;
            // Before all definitions are known, those of the rest would look forgotten.
            while self.services.is_synced() && self.definitions.is_synced() {
                self.work.take();
                let at_start = at_start.get_or_insert_with(|| self.names());
                if self.pass(&mut done, at_start).await {
                    self.complete.store(true, Ordering::Release);
                    backoff.reset();
                    break;
                }
                backoff.wait().await;
            }
        }
    }

    fn names(&self) -> BTreeSet<String> {
        self.services.list("").into_iter().map(|(key, _)| key.name).collect()
    }

    fn wanted(&self) -> BTreeMap<String, Wanted> {
        let one =
            |(group, version): (String, String), priority, once| (name_of(&group, &version), Wanted { group, version, priority, once });
        let defined = self.definitions.list("").into_iter().flat_map(|(_, defined)| defined.to_vec());
        let mut wanted: BTreeMap<String, Wanted> = defined.map(|it| one(it, priorities::CUSTOM, false)).collect();
        let builtin = self.builtin.iter().filter_map(|it| Some(one(it.clone(), priorities::builtin(&it.0, &it.1)?, true)));
        wanted.extend(builtin);
        wanted
    }

    /// Looks at everything once; whether nothing is left to do.
    async fn pass(&self, done: &mut BTreeSet<String>, at_start: &BTreeSet<String>) -> bool {
        let (wanted, known) = (self.wanted(), self.names());
        let names: BTreeSet<&String> = wanted.keys().chain(&known).collect();
        let acts = names.into_iter().map(|name| {
            let (wanted, found) = (wanted.get(name), self.services.get("", name));
            let action = plan(wanted, found.as_deref(), done.contains(name), at_start.contains(name));
            async move { (name.clone(), self.act(name, wanted, found.as_deref(), &action).await) }
        });
        let acts: Vec<_> = acts.collect();
        let outcomes: Vec<_> = stream::iter(acts).buffer_unordered(AT_ONCE).collect().await;
        let mut settled = true;
        for (name, outcome) in outcomes {
            match outcome {
                Ok(()) => drop(done.insert(name)),
                Err(status) => {
                    tracing::debug!(apiservice = %name, error = %status, "registering an API service failed; trying again");
                    settled = false;
                }
            }
        }
        settled
    }

    async fn act(&self, name: &str, wanted: Option<&Wanted>, found: Option<&ApiService>, action: &Action) -> Result<(), Status> {
        let done = match (action, wanted, found) {
            (Action::Create, Some(wanted), _) => self.api.create(&object(name, wanted)).await.map(drop),
            (Action::Update, Some(wanted), Some(found)) => {
                let mut changed = found.object.clone();
                changed.0.insert("spec".into(), wanted.spec());
                self.api.update(&changed).await.map(drop)
            }
            (Action::Delete, _, Some(found)) => self.api.delete(name, &json!({"preconditions": {"uid": found.object.uid()}})).await,
            _ => Ok(()),
        };
        match done {
            // Another server came first: the watch tells what it did.
            Err(status) if matches!(status.code, 404 | 409) => Ok(()),
            done => done,
        }
    }
}

fn object(name: &str, wanted: &Wanted) -> Object {
    let mut object = Object::default();
    object.set_api_version("apiregistration.k8s.io/v1");
    object.0.insert("kind".into(), "APIService".into());
    object.set_name(name);
    object.set_label(MANAGED, if wanted.once { ON_START } else { ALWAYS });
    object.0.insert("spec".into(), wanted.spec());
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(once: bool) -> Wanted {
        Wanted { group: "example.com".into(), version: "v1".into(), priority: priorities::CUSTOM, once }
    }

    fn found(managed: Option<&str>, priority: i64) -> ApiService {
        let mut object = object("v1.example.com", &wanted(false));
        object.set_labels(managed.map(|managed| (MANAGED.to_owned(), managed.to_owned())).into_iter().collect());
        object.pointer_mut("/spec").unwrap()["groupPriorityMinimum"] = priority.into();
        ApiService::read(object).unwrap()
    }

    #[test]
    fn what_is_kept_is_made_mended_and_taken_away() {
        let wanted = wanted(false);
        assert_eq!(plan(Some(&wanted), None, true, false), Action::Create);
        assert_eq!(plan(Some(&wanted), Some(&found(Some(ALWAYS), 1000)), true, false), Action::Keep);
        assert_eq!(plan(Some(&wanted), Some(&found(Some(ALWAYS), 5)), true, false), Action::Update);
        assert_eq!(plan(None, Some(&found(Some(ALWAYS), 1000)), true, false), Action::Delete);
    }

    #[test]
    fn what_somebody_else_made_is_left_alone() {
        assert_eq!(plan(Some(&wanted(false)), Some(&found(None, 5)), false, true), Action::Keep);
        assert_eq!(plan(None, Some(&found(None, 5)), false, true), Action::Keep);
    }

    #[test]
    fn built_in_ones_are_looked_at_once_after_the_start() {
        let wanted = wanted(true);
        assert_eq!(plan(Some(&wanted), None, false, false), Action::Create);
        assert_eq!(plan(Some(&wanted), Some(&found(Some(ON_START), 5)), false, true), Action::Update);
        assert_eq!(plan(Some(&wanted), Some(&found(Some(ON_START), 5)), true, true), Action::Keep);
        assert_eq!(plan(Some(&wanted), None, true, true), Action::Keep);
        // Of an earlier release: gone at the start, but not one that came since.
        assert_eq!(plan(None, Some(&found(Some(ON_START), 5)), false, true), Action::Delete);
        assert_eq!(plan(None, Some(&found(Some(ON_START), 5)), false, false), Action::Keep);
    }
}

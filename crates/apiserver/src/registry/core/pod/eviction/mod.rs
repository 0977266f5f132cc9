//! `pods/eviction`: deletes a pod if no disruption budget forbids it. Upstream's `EvictionREST`.

mod budget;

use std::time::Duration;

use apimachinery::{
    Object,
    gvk::GroupResource,
    status::{Status, reason},
};
use async_trait::async_trait;
use http::StatusCode;
use serde_json::{Value, json};

use super::condition;
use crate::{
    loopback::{Api, Loopback},
    registry::{Answer, Call, Connect, edit::ensure_object},
    request::RequestContext,
};

/// Serves an Eviction.
pub(crate) struct Evict;

/// Attempts where others write the pod or the budget at the same time, and the pause between two.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);

#[async_trait]
impl Connect for Evict {
    async fn call(&self, ctx: &RequestContext, api: &Loopback, call: Call) -> Result<Answer, Status> {
        let eviction = call.body.unwrap_or_default();
        if eviction.name() != call.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let request = Request {
            pods: api.namespaced("v1", "pods", ctx.namespace()),
            budgets: api.namespaced("policy/v1", "poddisruptionbudgets", ctx.namespace()),
            options: delete_options(&eviction, ctx.dry_run)?,
            name: call.name,
            now: ctx.now,
        };
        request.serve().await?;
        Ok(Answer::Object(StatusCode::CREATED, success()))
    }
}

fn success() -> Object {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Object::from_value(status).unwrap_or_default()
}

/// The eviction's own options, with the request's dry run where they say nothing of it.
fn delete_options(eviction: &Object, dry_run: bool) -> Result<Value, Status> {
    let mut options = eviction.0.get("deleteOptions").filter(|options| options.is_object()).cloned().unwrap_or_else(|| json!({}));
    let own: Vec<&str> = options.get("dryRun").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if dry_run && own.is_empty() {
        options["dryRun"] = json!(["All"]);
    } else if dry_run && own != ["All"] {
        let text = format!("Non-matching dry-run options in request and content: [All] and [{}]", own.join(" "));
        return Err(Status::failure(500, "", text));
    }
    Ok(options)
}

/// One eviction under way.
struct Request {
    pods: Api,
    budgets: Api,
    name: String,
    options: Value,
    now: jiff::Timestamp,
}

/// What lets a pod go.
enum Leave {
    /// No budget covers it, or its budget has been charged.
    Granted,
    /// It is not healthy, so that this budget loses nothing: true only while it stays so.
    Unhealthy(String),
}

impl Request {
    async fn serve(&self) -> Result<(), Status> {
        let Some(pod) = self.delete_unguarded().await? else { return Ok(()) };
        let Leave::Unhealthy(budget) = self.ask_budgets(&pod).await? else { return self.delete(&pod, false).await };
        match self.delete(&pod, true).await {
            // It may have become healthy since: the client asks again.
            Err(status) if status.is(reason::CONFLICT) && self.version().is_none() => Err(budget::being_processed(&budget)),
            outcome => outcome,
        }
    }

    /// Deletes a pod that budgets do not count; gives back one that they do.
    async fn delete_unguarded(&self) -> Result<Option<Object>, Status> {
        let mut tries = 1;
        loop {
            let pod = self.pods.get(&self.name).await?;
            if !budget::ignores(&pod) {
                return Ok(Some(pod));
            }
            // A pending pod may become ready at any moment, and count from then on.
            let bound = self.version().is_none() && pod.str_at("/status/phase") == "Pending" && pod.deletion_timestamp().is_none();
            match self.delete(&pod, bound).await {
                Err(status) if status.is(reason::CONFLICT) && self.version().is_none() && tries < ATTEMPTS => pause().await,
                outcome => return outcome.map(|()| None),
            }
            tries += 1;
        }
    }

    async fn ask_budgets(&self, pod: &Object) -> Result<Leave, Status> {
        let covering: Vec<Object> = self.budgets.list("").await?.items.into_iter().filter(|found| budget::covers(found, pod)).collect();
        let mut budget = match <[Object; 1]>::try_from(covering) {
            Ok([budget]) => budget,
            Err(none) if none.is_empty() => return Ok(Leave::Granted),
            Err(_) => return Err(budget::more_than_one()),
        };
        if budget::spares(&budget, pod) {
            return Ok(Leave::Unhealthy(budget.name().to_owned()));
        }
        let mut tries = 1;
        loop {
            budget::charge(&mut budget, pod.name(), self.now)?;
            if self.is_dry_run() {
                return Ok(Leave::Granted);
            }
            match self.budgets.update_sub("status", &budget).await {
                Err(status) if status.is(reason::CONFLICT) && tries < ATTEMPTS => pause().await,
                outcome => return outcome.map(|_| Leave::Granted),
            }
            budget = self.budgets.get(budget.name()).await?;
            tries += 1;
        }
    }

    /// Says on the pod why it goes, then deletes it; `bound`: only this very state of it.
    async fn delete(&self, pod: &Object, bound: bool) -> Result<(), Status> {
        let mut options = self.options.clone();
        if bound {
            set_version(&mut options, pod.resource_version());
        }
        if !self.is_dry_run() {
            let marked = self.mark(&options).await?;
            if version(&options).is_some() {
                set_version(&mut options, marked.resource_version());
            }
        }
        self.pods.delete(&self.name, &options).await
    }

    async fn mark(&self, options: &Value) -> Result<Object, Status> {
        let mut tries = 1;
        loop {
            let mut pod = self.pods.get(&self.name).await?;
            check_preconditions(options, &pod)?;
            if !condition::set(&mut pod, "DisruptionTarget", ("EvictionByEvictionAPI", "Eviction API: evicting"), self.now) {
                return Ok(pod);
            }
            match self.pods.update_sub("status", &pod).await {
                Err(status) if status.is(reason::CONFLICT) && tries < ATTEMPTS => tries += 1,
                outcome => return outcome,
            }
        }
    }

    fn is_dry_run(&self) -> bool {
        self.options.pointer("/dryRun/0").is_some()
    }

    /// The resourceVersion the client insists on.
    fn version(&self) -> Option<&str> {
        version(&self.options)
    }
}

fn version(options: &Value) -> Option<&str> {
    options.pointer("/preconditions/resourceVersion").and_then(Value::as_str)
}

fn set_version(options: &mut Value, version: &str) {
    if let Value::Object(options) = options {
        ensure_object(options, "preconditions").insert("resourceVersion".into(), version.into());
    }
}

fn check_preconditions(options: &Value, pod: &Object) -> Result<(), Status> {
    let wanted = |field: &str| options.pointer(&format!("/preconditions/{field}")).and_then(Value::as_str).filter(|text| !text.is_empty());
    let refuse = |why: String| Err(Status::conflict(&GroupResource::new("", "Pod"), pod.name(), why));
    if let Some(uid) = wanted("uid").filter(|uid| *uid != pod.uid()) {
        let found = pod.uid();
        return refuse(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have been deleted and then \
             recreated"
        ));
    }
    if let Some(version) = wanted("resourceVersion").filter(|version| *version != pod.resource_version()) {
        let found = pod.resource_version();
        return refuse(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({found}). The object might \
             have been modified"
        ));
    }
    Ok(())
}

async fn pause() {
    tokio::time::sleep(PAUSE.mul_f64(1.0 + rand::random::<f64>() * 0.1)).await;
}

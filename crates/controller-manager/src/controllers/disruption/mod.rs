//! Counts for each PodDisruptionBudget how many of its pods may be evicted.

mod plan;
mod scale;
mod stale;

use std::sync::Arc;

use client::{
    Key,
    informer::{Informer, matches},
    queue::{self, Outcome, Queue},
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::Resource as _;

use scale::Scales;

use crate::{context::Context, status};

struct Controller {
    context: Context,
    budgets: Informer<PodDisruptionBudget>,
    pods: Informer<Pod>,
    scales: Scales,
    queue: Queue<Key>,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let controller = Arc::new(Controller {
            budgets: context.informers.of(),
            pods: context.informers.of(),
            scales: Scales::new(&context),
            queue: context.queue("disruption"),
            context,
        });
        controller.listen();
        controller.budgets.synced().await;
        controller.pods.synced().await;
        controller.scales.synced().await;
        let context = &controller.context;
        let (shutdown, stale) = (context.shutdown.clone(), context.queue("stale_pod_disruption"));
        let stale = stale::run(context.client.clone(), controller.pods.clone(), stale, shutdown.clone());
        let queue = controller.queue.clone();
        tokio::join!(queue::work(queue, 1, shutdown, move |key| Arc::clone(&controller).reconcile(key)), stale);
    }
    .boxed()
}

fn selector(budget: &PodDisruptionBudget) -> Option<&LabelSelector> {
    budget.spec.as_ref().and_then(|spec| spec.selector.as_ref())
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        let sink = self.queue.clone();
        self.budgets.on_change(move |change| sink.add(Key::of(change.object().meta())));
        let controller = Arc::clone(self);
        self.pods.on_change(move |change| controller.on_pod(change.object()));
    }

    fn on_pod(&self, pod: &Pod) {
        let mut budgets = self.budgets.list_namespace(pod.metadata.namespace.as_deref().unwrap_or_default());
        budgets.retain(|budget| matches(selector(budget), pod.metadata.labels.as_ref()));
        if let [first, _, ..] = budgets.as_slice() {
            let text = |name: &Option<String>| name.clone().unwrap_or_default();
            let (namespace, name) = (text(&pod.metadata.namespace), text(&pod.metadata.name));
            let chosen = text(&first.metadata.name);
            let text = format!("Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {chosen:?} arbitrarily.");
            self.context.recorder.warning(&pod.object_ref(&()), "MultiplePodDisruptionBudgets", text);
        }
        for budget in budgets {
            self.queue.add(Key::of(&budget.metadata));
        }
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(budget) = self.budgets.get(&key) else { return Ok(Outcome::Done) };
        let mut pods = self.pods.list_namespace(&key.namespace);
        pods.retain(|pod| matches(selector(&budget), pod.metadata.labels.as_ref()));
        let (about, recorder) = (budget.object_ref(&()), &self.context.recorder);
        if pods.is_empty() {
            recorder.normal(&about, "NoPods", "No matching pods found");
        }
        let now = component::clock::now();
        let expected = match self.expected(&budget, &pods).await {
            Ok(expected) => expected,
            // Until it can be counted, nothing may go.
            Err(error) => {
                let why = format!("{error:#}");
                recorder.warning(
                    &about,
                    "CalculateExpectedPodCountFailed",
                    format!("Failed to calculate the number of expected pods: {why}"),
                );
                self.write(&key, &budget, plan::failed(&budget, &why, now)).await?;
                return Ok(Outcome::Done);
            }
        };
        let plan = plan::plan(&budget, &pods, expected, now);
        for pod in &plan.overdue {
            let text = format!("Pod was expected by PDB {}/{} to be deleted but it wasn't", key.namespace, key.name);
            recorder.warning(&pod.object_ref(&()), "NotDeleted", text);
        }
        self.write(&key, &budget, plan.status).await?;
        Ok(plan.again.map_or(Outcome::Done, Outcome::After))
    }

    /// How many pods the budget is about: all it matches, or as many as their controllers ask for.
    async fn expected(&self, budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> anyhow::Result<i32> {
        if !plan::needs_scale(budget) {
            return Ok(i32::try_from(pods.len()).unwrap_or(i32::MAX));
        }
        let (total, unmanaged) = self.scales.total(pods).await?;
        if unmanaged {
            let text = format!(
                "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of the PDB \
                 cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \
                 \".spec.minAvailable\" field of the PDB to an integer value.",
                shown(selector(budget)),
            );
            self.context.recorder.warning(&budget.object_ref(&()), "UnmanagedPods", text);
        }
        Ok(total)
    }

    async fn write(&self, key: &Key, budget: &PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> anyhow::Result<()> {
        let shown = PodDisruptionBudget { status: Some(status), ..budget.clone() };
        status::write(&self.context.client, key, budget, &shown).await
    }
}

/// A selector as upstream's events spell it.
fn shown(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels: String = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}: {value},")).collect();
    let terms = selector.match_expressions.iter().flatten().map(|term| {
        let values = term.values.clone().unwrap_or_default().join(" ");
        format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", term.key, term.operator)
    });
    let terms: String = terms.collect();
    format!("&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_selector_is_spelled_as_go_does() {
        let selector =
            serde_json::json!({"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}]});
        assert_eq!(
            super::shown(Some(&serde_json::from_value(selector).unwrap())),
            "&LabelSelector{MatchLabels:map[string]string{app: a,},MatchExpressions:[]LabelSelectorRequirement{\
             LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
        );
    }
}

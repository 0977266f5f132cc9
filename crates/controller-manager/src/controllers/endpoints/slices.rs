//! The EndpointSlices of a service. Pure.
//!
//! Endpoints stay in the slice they are in; slices with free places are filled up before new ones are made, and no more
//! slices are written than have to be, since every node watches them all.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use k8s_openapi::api::{
    core::v1::{Pod, Service},
    discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
};
use kube::api::ObjectMeta;

use super::address;
use crate::{owner, pods};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Create(Box<EndpointSlice>),
    Update(Box<EndpointSlice>),
    Delete(String),
}

/// Index values of a slice this controller manages: `namespace/service`.
pub(super) fn service_of(slice: &EndpointSlice) -> Vec<String> {
    let label = |name: &str| slice.metadata.labels.as_ref().and_then(|labels| labels.get(name));
    let service = label(SERVICE_NAME).filter(|_| label(MANAGED_BY).is_some_and(|by| by == CONTROLLER));
    service.map(|name| format!("{}/{name}", slice.metadata.namespace.as_deref().unwrap_or_default())).into_iter().collect()
}

/// What to write so that `existing` slices, of at most `most` endpoints each, show `service`'s `pods`.
pub(super) fn plan(
    service: &Service,
    pods: &[Arc<Pod>],
    zone: impl Fn(&str) -> Option<String>,
    existing: &[Arc<EndpointSlice>],
    most: usize,
) -> Vec<Action> {
    let families = address::families(service);
    let foreign = existing.iter().filter(|slice| !families.contains(&slice.address_type));
    let mut actions: Vec<Action> = foreign.map(|slice| Action::Delete(name(slice))).collect();
    for family in &families {
        let desired = desired(service, pods, &zone, family);
        let of_family: Vec<_> = existing.iter().filter(|slice| slice.address_type == *family).cloned().collect();
        actions.extend(plan_family(service, family, desired, &of_family, most));
    }
    actions
}

/// Endpoints by the ports they serve: a named port may be another number in another pod.
type Desired = BTreeMap<String, (Vec<EndpointPort>, Vec<Endpoint>)>;

fn desired(service: &Service, pods: &[Arc<Pod>], zone: impl Fn(&str) -> Option<String>, family: &str) -> Desired {
    let mut groups = Desired::new();
    for pod in pods.iter().filter(|pod| !pods::is_finished(pod)) {
        let Some(ip) = address::ip_of_family(pod, family) else { continue };
        let ports = ports(service, pod);
        let group = groups.entry(port_key(&ports)).or_insert_with(|| (ports, Vec::new()));
        group.1.push(endpoint(service, pod, ip, &zone));
    }
    groups
}

fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let known = ports.into_iter().flatten().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(address::port_number(port, pod)?),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".into())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    known.collect()
}

fn port_key(ports: &[EndpointPort]) -> String {
    let mut keys: Vec<String> = ports.iter().map(|port| format!("{port:?}")).collect();
    keys.sort();
    keys.join(";")
}

fn endpoint(service: &Service, pod: &Pod, ip: String, zone: impl Fn(&str) -> Option<String>) -> Endpoint {
    let serving = pods::is_ready(pod);
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let ready = address::publishes_not_ready(service) || (serving && !terminating);
    let node_name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    Endpoint {
        addresses: vec![ip],
        conditions: Some(EndpointConditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) }),
        hostname: address::hostname(service, pod),
        zone: node_name.as_deref().and_then(zone),
        node_name,
        target_ref: Some(address::target(pod)),
        ..Endpoint::default()
    }
}

/// The place of an endpoint: the same pod under the same address stays where it is.
fn identity(endpoint: &Endpoint) -> (String, Option<String>) {
    let uid = endpoint.target_ref.as_ref().and_then(|target| target.uid.clone());
    (endpoint.addresses.first().cloned().unwrap_or_default(), uid)
}

/// A slice at work: as it will be, and whether that differs from what is there.
struct Draft {
    slice: EndpointSlice,
    changed: bool,
}

impl Draft {
    fn endpoints(&mut self) -> &mut Vec<Endpoint> {
        self.slice.endpoints.get_or_insert_default()
    }

    fn len(&self) -> usize {
        self.slice.endpoints.as_ref().map_or(0, Vec::len)
    }
}

fn plan_family(service: &Service, family: &str, desired: Desired, existing: &[Arc<EndpointSlice>], most: usize) -> Vec<Action> {
    let mut by_ports: BTreeMap<String, Vec<&Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in existing {
        by_ports.entry(port_key(slice.ports.as_deref().unwrap_or_default())).or_default().push(slice);
    }
    let (mut drafts, mut fresh) = (Vec::new(), Vec::new());
    for (key, (ports, endpoints)) in desired {
        let old = by_ports.remove(&key).unwrap_or_default();
        let (kept, rest) = retain(service, &old, endpoints);
        let (kept, made) = place(service, family, &ports, kept, rest, most);
        drafts.extend(kept);
        fresh.extend(made);
    }
    // Slices of ports nobody serves any more.
    for slice in by_ports.into_values().flatten() {
        let (mut draft, _) = retain(service, &[slice], Vec::new());
        drafts.append(&mut draft);
    }
    settle(service, family, drafts, fresh)
}

/// Takes from each slice what is no longer desired; what remains of `desired` has no place yet.
fn retain(service: &Service, old: &[&Arc<EndpointSlice>], desired: Vec<Endpoint>) -> (Vec<Draft>, Vec<Endpoint>) {
    let order: Vec<_> = desired.iter().map(identity).collect();
    let mut desired: HashMap<_, _> = desired.into_iter().map(|endpoint| (identity(&endpoint), endpoint)).collect();
    let mut drafts = Vec::new();
    for slice in old {
        let mut wanted = slice.as_ref().clone();
        let stay = slice.endpoints.iter().flatten().filter_map(|endpoint| desired.remove(&identity(endpoint)));
        wanted.endpoints = Some(stay.collect());
        dress(service, &mut wanted);
        let changed = !same(&wanted, slice);
        drafts.push(Draft { slice: wanted, changed });
    }
    (drafts, order.into_iter().filter_map(|identity| desired.remove(&identity)).collect())
}

/// Finds places for `rest`: in slices that are written anyway, else in one that takes all of it, else in new ones.
fn place(
    service: &Service,
    family: &str,
    ports: &[EndpointPort],
    mut drafts: Vec<Draft>,
    mut rest: Vec<Endpoint>,
    most: usize,
) -> (Vec<Draft>, Vec<EndpointSlice>) {
    for draft in drafts.iter_mut().filter(|draft| draft.changed && draft.len() > 0) {
        let room = most.saturating_sub(draft.len()).min(rest.len());
        draft.endpoints().extend(rest.drain(..room));
    }
    if !rest.is_empty() {
        let fits = |draft: &&mut Draft| draft.len() + rest.len() <= most;
        // The fullest one that takes all.
        if let Some(draft) = drafts.iter_mut().filter(fits).max_by_key(|draft| draft.len()) {
            draft.endpoints().append(&mut rest);
            draft.changed = true;
        }
    }
    let made = rest.chunks(most).map(|chunk| new_slice(service, family, ports, chunk.to_vec()));
    (drafts, made.collect())
}

/// Turns drafts into actions: empty slices go, but one stays (or comes) to say that there are no endpoints.
fn settle(service: &Service, family: &str, drafts: Vec<Draft>, fresh: Vec<EndpointSlice>) -> Vec<Action> {
    let (full, empty): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|draft| draft.len() > 0);
    let mut empty = empty.into_iter();
    let mut actions = Vec::new();
    if full.is_empty() && fresh.is_empty() {
        match empty.next() {
            Some(mut draft) => {
                let had_ports = draft.slice.ports.as_ref().is_some_and(|ports| !ports.is_empty());
                draft.slice.ports = None;
                if draft.changed || had_ports {
                    actions.push(Action::Update(Box::new(draft.slice)));
                }
            }
            None => actions.push(Action::Create(Box::new(new_slice(service, family, &[], Vec::new())))),
        }
    }
    actions.extend(empty.map(|draft| Action::Delete(name(&draft.slice))));
    let changed = full.into_iter().filter(|draft| draft.changed);
    actions.extend(changed.map(|draft| Action::Update(Box::new(draft.slice))));
    actions.extend(fresh.into_iter().map(|slice| Action::Create(Box::new(slice))));
    actions
}

fn new_slice(service: &Service, family: &str, ports: &[EndpointPort], endpoints: Vec<Endpoint>) -> EndpointSlice {
    let mut slice = EndpointSlice {
        address_type: family.to_owned(),
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", service.metadata.name.as_deref().unwrap_or_default())),
            namespace: service.metadata.namespace.clone(),
            owner_references: Some(vec![owner::reference(service)]),
            ..ObjectMeta::default()
        },
        endpoints: Some(endpoints),
        ports: Some(ports.to_vec()),
    };
    dress(service, &mut slice);
    slice
}

/// Gives the slice the labels of its service and its own.
fn dress(service: &Service, slice: &mut EndpointSlice) {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if address::is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels.insert(SERVICE_NAME.into(), service.metadata.name.clone().unwrap_or_default());
    labels.insert(MANAGED_BY.into(), CONTROLLER.into());
    slice.metadata.labels = Some(labels);
}

/// Whether two slices say the same; absent and empty lists do.
fn same(a: &EndpointSlice, b: &EndpointSlice) -> bool {
    let endpoints = |slice: &EndpointSlice| slice.endpoints.clone().unwrap_or_default();
    endpoints(a) == endpoints(b) && a.metadata.labels == b.metadata.labels
}

fn name(slice: &EndpointSlice) -> String {
    slice.metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests;

//! Services.

mod addresses;
mod allocate;
mod defaults;
mod families;
mod node_ports;
mod print;
mod shape;
mod validate;

use std::{borrow::Cow, ops::RangeInclusive, sync::Arc};

use apimachinery::{Object, field::ErrorList, gvk::GroupKind, names, status::Status};
use async_trait::async_trait;
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    loopback::Loopback,
    registry::{Column, Finish, Strategy, Wiring, check::At, edit},
    request::RequestContext,
};

/// The rules of services.
#[derive(Clone)]
pub(crate) struct Service {
    /// Ranges cluster IPs come from, the primary family first.
    pub(crate) ranges: Arc<[IpNet]>,
    /// Range node ports come from.
    pub(crate) node_ports: RangeInclusive<u16>,
    /// Held while node ports are taken: only those who ask other servers then come in between.
    pub(crate) allocating: Arc<Mutex<()>>,
}

impl Service {
    /// The rules as the server is configured.
    pub(crate) fn new(wiring: &Wiring) -> Self {
        Self { ranges: wiring.service_ranges.clone().into(), node_ports: wiring.node_ports.clone(), allocating: Arc::default() }
    }
}

#[async_trait]
impl Strategy for Service {
    fn default(&self, obj: &mut Object) {
        defaults::apply(obj);
    }

    async fn begin_create(&self, ctx: &RequestContext, api: &Loopback, obj: &mut Object) -> Result<Finish, Status> {
        shape::normalize_cluster_ips(obj, None);
        families::fill(obj, &self.ranges).map_err(|errs| invalid(obj, errs))?;
        allocate::for_create(self, ctx, api, obj).await
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({"loadBalancer": {}}));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        validate::service(obj)
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        validate::warnings(obj)
    }

    async fn begin_update(&self, ctx: &RequestContext, api: &Loopback, obj: &mut Object, old: &Object) -> Result<Finish, Status> {
        shape::patch_allocated(obj, old);
        shape::normalize_cluster_ips(obj, Some(old));
        shape::drop_unused(obj, old);
        families::fill(obj, &self.ranges).map_err(|errs| invalid(obj, errs))?;
        // What may not change at all is not to be allocated first.
        let fixed = validate::update(obj, old);
        if !fixed.is_empty() {
            return Err(invalid(obj, fixed));
        }
        allocate::for_update(self, ctx, api, obj, old).await
    }

    fn prepare_for_update(&self, _ctx: &RequestContext, obj: &mut Object, _old: &Object) {
        if obj.str_at("/spec/type") != "LoadBalancer" {
            obj.0.insert("status".into(), json!({"loadBalancer": {}}));
        }
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = validate::update(obj, old);
        errs.extend(validate::service(obj));
        errs
    }

    fn prepare_for_status_update(&self, _ctx: &RequestContext, obj: &mut Object, _old: &Object) {
        defaults::load_balancer_modes(edit::ensure_object(&mut obj.0, "status"));
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        validate::load_balancer_status(&At::field(obj, "status").get("loadBalancer"))
    }

    async fn after_delete(&self, _ctx: &RequestContext, api: &Loopback, obj: &Object) {
        allocate::release(self, api, obj).await;
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        if prefix { names::is_dns1123_label(&names::mask_trailing_dash(name)) } else { names::is_dns1123_label(name) }
    }

    fn field_labels(&self) -> Vec<Cow<'static, str>> {
        vec!["spec.clusterIP".into(), "spec.type".into()]
    }

    fn selectable_fields(&self, obj: &Object) -> Vec<(Cow<'static, str>, String)> {
        let value = |pointer: &str| obj.str_at(pointer).to_owned();
        vec![("spec.clusterIP".into(), value("/spec/clusterIP")), ("spec.type".into(), value("/spec/type"))]
    }

    fn columns(&self) -> Vec<Column> {
        print::columns()
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        print::cells(obj, now)
    }
}

/// A service's errors as a Status.
fn invalid(obj: &Object, errs: ErrorList) -> Status {
    Status::invalid(&GroupKind::new("", "Service"), obj.name(), errs)
}

/// Whether the type has cluster IPs at all.
fn needs_cluster_ip(obj: &Object) -> bool {
    matches!(obj.str_at("/spec/type"), "ClusterIP" | "NodePort" | "LoadBalancer")
}

/// Whether the service asked for no cluster IP.
fn is_headless(obj: &Object) -> bool {
    obj.str_at("/spec/clusterIPs/0") == "None" || obj.str_at("/spec/clusterIP") == "None"
}

/// Whether its ports have node ports.
fn needs_node_ports(obj: &Object) -> bool {
    let allocates = obj.pointer("/spec/allocateLoadBalancerNodePorts").and_then(Value::as_bool).unwrap_or(true);
    match obj.str_at("/spec/type") {
        "NodePort" => true,
        "LoadBalancer" => allocates,
        _ => false,
    }
}

/// Whether it has a node port for health checks.
fn needs_health_port(obj: &Object) -> bool {
    obj.str_at("/spec/type") == "LoadBalancer" && obj.str_at("/spec/externalTrafficPolicy") == "Local"
}

/// Whether traffic from outside reaches it.
fn is_external(obj: &Object) -> bool {
    matches!(obj.str_at("/spec/type"), "NodePort" | "LoadBalancer") || At::field(obj, "spec").get("externalIPs").size() > 0
}

#[cfg(test)]
mod tests;

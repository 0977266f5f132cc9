//! The resources of the core group.

mod componentstatus;
mod configmap;
mod endpoints;
pub(crate) mod forward;
mod immutable;
mod limitrange;
mod namespace;
mod node;
mod persistentvolume;
mod persistentvolumeclaim;
mod pod;
pub(crate) mod pod_spec;
mod podtemplate;
mod proxy;
mod replicationcontroller;
mod resourcequota;
mod secret;
mod service;
mod serviceaccount;

use super::{Resource, Wiring, cluster, namespaced};

/// One line per resource.
pub(crate) fn table(wiring: &Wiring) -> Vec<Resource> {
    vec![
        namespaced("", "v1", "Binding", "bindings").computed(&["create"], pod::Bind),
        cluster("", "v1", "ComponentStatus", "componentstatuses")
            .short(&["cs"])
            .strategy(componentstatus::TABLE)
            .computed(&["get", "list"], componentstatus::ComponentStatuses)
            .deprecated("v1 ComponentStatus is deprecated in v1.19+"),
        namespaced("", "v1", "ConfigMap", "configmaps").short(&["cm"]).strategy(configmap::ConfigMap),
        namespaced("", "v1", "Endpoints", "endpoints")
            .short(&["ep"])
            .stored_under("services/endpoints")
            .strategy(endpoints::Endpoints)
            .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        namespaced("", "v1", "Event", "events").short(&["ev"]).strategy(super::events::Event { new_form: false, ttl: wiring.event_ttl }),
        namespaced("", "v1", "LimitRange", "limitranges").short(&["limits"]).strategy(limitrange::LimitRange),
        cluster("", "v1", "Namespace", "namespaces")
            .short(&["ns"])
            .without("deletecollection")
            .status()
            .strategy(namespace::Namespace)
            .sub(namespace::finalize())
            .returns_deleted(),
        cluster("", "v1", "Node", "nodes")
            .short(&["no"])
            .stored_under("minions")
            .status()
            .strategy(node::Node)
            .sub(proxy::of_nodes(wiring)),
        namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
            .short(&["pvc"])
            .status()
            .strategy(persistentvolumeclaim::PersistentVolumeClaim)
            .returns_deleted(),
        cluster("", "v1", "PersistentVolume", "persistentvolumes")
            .short(&["pv"])
            .status()
            .strategy(persistentvolume::PersistentVolume)
            .returns_deleted(),
        pod::resource(wiring),
        namespaced("", "v1", "PodTemplate", "podtemplates").strategy(podtemplate::PodTemplate).returns_deleted(),
        cluster("", "v1", "RangeAllocation", "rangeallocations").stored_under("ranges").internal(),
        namespaced("", "v1", "ReplicationController", "replicationcontrollers")
            .short(&["rc"])
            .category("all")
            .stored_under("controllers")
            .scale()
            .status()
            .strategy(replicationcontroller::ReplicationController),
        namespaced("", "v1", "ResourceQuota", "resourcequotas")
            .short(&["quota"])
            .status()
            .strategy(resourcequota::ResourceQuota)
            .returns_deleted(),
        namespaced("", "v1", "Secret", "secrets").strategy(secret::Secret),
        serviceaccount::resource(wiring),
        namespaced("", "v1", "Service", "services")
            .short(&["svc"])
            .category("all")
            .stored_under("services/specs")
            .status()
            .strategy(service::Service::new(wiring))
            .sub(proxy::of_services(wiring))
            .returns_deleted(),
    ]
}

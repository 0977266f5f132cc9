//! Cluster IPs and node ports that two servers give out at the same time.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tests::Maker;

use crate::several::Several;

/// So many write at the same time through each server, so many services each.
const WRITERS: usize = 6;
const EACH: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_address_and_no_node_port_is_given_out_twice() {
    given_out_once(Maker::Ours).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_address_and_no_node_port_is_given_out_twice_on_a_real_etcd() {
    given_out_once(Maker::Etcd).await;
}

async fn given_out_once(maker: Maker) {
    let several = Several::on(maker);
    let servers = [services(&several, 0).await, services(&several, 1).await];
    for round in ["first", "second"] {
        join_all((0..2 * WRITERS).map(|writer| write(&servers[writer % 2], format!("{round}-{writer}")))).await;
        all_differ(&servers[0].list(&ListParams::default()).await.unwrap().items);
        // What was given back may be given out again, by either server.
        let old = servers[1].list(&ListParams::default().labels("round")).await.unwrap();
        join_all(old.items.iter().step_by(2).enumerate().map(|(turn, service)| delete(&servers[turn % 2], service.name_any()))).await;
    }
    let taken = node_ports(&servers[0].list(&ListParams::default()).await.unwrap().items);
    for (number, free) in (30_000..).filter(|port| !taken.contains(port)).take(5).enumerate() {
        let port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": free}]});
        one_wins(&servers, &format!("port-{number}"), port).await;
        let address = json!({"clusterIP": format!("10.96.0.{}", 100 + number), "ports": [{"port": 80}]});
        one_wins(&servers, &format!("address-{number}"), address).await;
    }
}

async fn services(several: &Several, server: usize) -> Api<Service> {
    Api::namespaced(several.client(server).await, "default")
}

fn service(name: &str, spec: Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"round": "x"}}, "spec": spec})).unwrap()
}

async fn write(server: &Api<Service>, name: String) {
    for number in 0..EACH {
        let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
        let service = service(&format!("{name}-{number}"), json!({"type": "NodePort", "ports": ports}));
        server.create(&PostParams::default(), &service).await.unwrap();
    }
}

async fn delete(server: &Api<Service>, name: String) {
    server.delete(&name, &DeleteParams::default()).await.unwrap();
}

fn node_ports(services: &[Service]) -> BTreeSet<i32> {
    let ports = services.iter().filter_map(|service| service.spec.as_ref()?.ports.as_ref()).flatten();
    ports.filter_map(|port| port.node_port).collect()
}

fn all_differ(services: &[Service]) {
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for service in services {
        let spec = service.spec.as_ref().unwrap();
        for address in spec.cluster_ips.iter().flatten() {
            assert!(addresses.insert(address), "{address} was given out twice");
        }
        for port in spec.ports.iter().flatten().filter_map(|port| port.node_port) {
            assert!(ports.insert(port), "{port} was given out twice");
        }
    }
    assert!(ports.len() >= 2 * 2 * WRITERS * EACH, "only {} node ports", ports.len());
}

/// Of two services that ask for the same thing at the same time, at two servers, one gets it.
async fn one_wins(servers: &[Api<Service>; 2], name: &str, spec: Value) {
    let ask =
        async |server: usize| servers[server].create(&PostParams::default(), &service(&format!("{name}-{server}"), spec.clone())).await;
    let (first, second) = futures::join!(ask(0), ask(1));
    let refused = match (&first, &second) {
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => error,
        _ => panic!("{name}: {first:?}, {second:?}"),
    };
    let kube::Error::Api(status) = refused else { panic!("{name}: {refused}") };
    assert!(status.code == 422 && status.message.contains("already allocated"), "{name}: {status:?}");
}

//! Which servers there are: the endpoints of the service `kubernetes`, and identity leases.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::{Maker, within};

use crate::several::Several;

/// A lease that is not renewed lasts 15 s; servers look every 10.
const NOTICED: Duration = Duration::from_secs(40);
/// A server that ends says so itself.
const SAID: Duration = Duration::from_secs(10);
const IDENTITY: &str = "apiserver.kubernetes.io/identity=kube-apiserver";
/// One that nobody has renewed for years.
const FORGOTTEN: &str = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"apiserver-forgotten","namespace":"kube-system",
    "labels":{"apiserver.kubernetes.io/identity":"kube-apiserver"}},
    "spec":{"holderIdentity":"x","leaseDurationSeconds":3600,"renewTime":"2020-01-01T00:00:00.000000Z"}}"#;

#[test]
fn the_service_kubernetes_leads_to_every_server_that_lives() {
    leads_to_all(Maker::Ours);
}

#[test]
fn the_service_kubernetes_leads_to_every_server_that_lives_on_a_real_etcd() {
    leads_to_all(Maker::Etcd);
}

fn leads_to_all(maker: Maker) {
    let mut several = Several::on(maker);
    let both = ["127.0.0.1", "127.0.0.2"];
    leads_to(&several, &both, NOTICED);
    several.parts[1].signal(Signal::SIGKILL);
    several.parts[1].ends();
    leads_to(&several, &both[..1], NOTICED);
    several.start(1);
    leads_to(&several, &both, NOTICED);
    several.parts[1].signal(Signal::SIGTERM);
    leads_to(&several, &both[..1], SAID);
    several.parts[1].ends();
    several.parts[1].set_flag("endpoint-reconciler-type", "none");
    several.start(1);
    // Had it taken part, the first one's next look would show it.
    several.parts[0].stop();
    several.start(0);
    leads_to(&several, &both[..1], NOTICED);
}

/// Waits until endpoints and slice, seen at the first server, name just these addresses at the servers' port.
fn leads_to(several: &Several, addresses: &[&str], limit: Duration) {
    let port: u64 = several.url(0).rsplit(':').next().unwrap().parse().unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    within(limit, "the service leads to those that live", || {
        let endpoints = several.cluster.get(&["endpoints", "kubernetes"]).unwrap_or_default();
        let slice = several.cluster.get(&["endpointslices", "kubernetes"]).unwrap_or_default();
        let named: Vec<_> = list(&endpoints["subsets"][0]["addresses"]).into_iter().map(|address| address["ip"].clone()).collect();
        let sliced: Vec<_> = list(&slice["endpoints"]).into_iter().map(|endpoint| endpoint["addresses"][0].clone()).collect();
        let ports = [&endpoints["subsets"][0]["ports"][0]["port"], &slice["ports"][0]["port"]];
        let right = named == addresses && sliced == addresses && ports.iter().all(|found| **found == port);
        if right { Ok(()) } else { Err(format!("{endpoints}\n{slice}")) }
    });
}

#[test]
fn each_server_has_an_identity_lease_of_its_own_and_forgotten_ones_go() {
    let mut several = Several::on(Maker::Ours);
    let before = leases(&several);
    assert_eq!(before.len(), 2, "{before:?}");
    for lease in &before {
        let (name, holder) = (lease["metadata"]["name"].as_str().unwrap(), lease["spec"]["holderIdentity"].as_str().unwrap());
        let hash = name.strip_prefix("apiserver-").unwrap();
        assert!(hash.len() == 26 && hash.chars().all(|c| c.is_ascii_lowercase() || ('2'..='7').contains(&c)), "{name}");
        let life = holder.strip_prefix(&format!("{name}_")).unwrap();
        assert_eq!(life.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{holder}");
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 3600);
    }
    let field = |leases: &[Value], field: &str| leases.iter().map(|lease| lease["spec"][field].clone()).collect::<Vec<_>>();
    within(Duration::from_secs(25), "both are renewed", || {
        let (old, new) = (field(&before, "renewTime"), field(&leases(&several), "renewTime"));
        if old.iter().zip(&new).all(|(old, new)| old != new) { Ok(()) } else { Err(format!("{new:?}")) }
    });
    several.cluster.apply(FORGOTTEN);
    several.parts[1].stop();
    several.start(1);
    within(NOTICED, "the forgotten lease is gone, the others stay, held by who lives now", || {
        let (old, new) = (field(&before, "holderIdentity"), field(&leases(&several), "holderIdentity"));
        let changed: Vec<_> = old.iter().zip(&new).map(|(old, new)| old != new).collect();
        if new.len() == 2 && changed.iter().filter(|changed| **changed).count() == 1 { Ok(()) } else { Err(format!("{new:?}")) }
    });
}

/// In order of their names.
fn leases(several: &Several) -> Vec<Value> {
    several.cluster.list(&["leases", "-n", "kube-system", "-l", IDENTITY]).unwrap()
}

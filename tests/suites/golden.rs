//! Recorded conversations with kube-apiserver 1.36.2, where they lie beside the checkout.
#![allow(clippy::unwrap_used)]

use tests::{Cluster, golden};

#[test]
fn the_api_server_answers_as_the_recorded_one() {
    golden::answers_as_recorded(&Cluster::up(&["--components", "store,apiserver"]));
}

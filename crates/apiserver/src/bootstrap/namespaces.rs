//! The namespaces every cluster has.

use apimachinery::status::Status;

use super::object;
use crate::loopback::Loopback;

const NAMES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

pub(super) async fn ensure(api: Loopback) -> Result<(), Status> {
    let namespaces = api.api("v1", "namespaces");
    for name in NAMES {
        super::ensure(&namespaces, &object("v1", "Namespace", "", name)).await?;
    }
    Ok(())
}

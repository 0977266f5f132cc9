//! Several stores: one for most resources, others for those that `--etcd-servers-overrides` names.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::gvk::GroupResource;
use async_trait::async_trait;
use futures::future::try_join_all;

use super::{Backend, Collection, Result, Storage};

/// Opens each collection in its store.
pub(crate) struct Divided {
    usual: Arc<dyn Backend>,
    apart: BTreeMap<GroupResource, Arc<dyn Backend>>,
}

impl Divided {
    /// `apart` holds the resources that do not lie in `usual`.
    pub(crate) fn new(usual: Arc<dyn Backend>, apart: impl IntoIterator<Item = (GroupResource, Arc<dyn Backend>)>) -> Self {
        Self { usual, apart: apart.into_iter().collect() }
    }
}

#[async_trait]
impl Backend for Divided {
    fn open(&self, collection: Collection) -> Arc<dyn Storage> {
        self.apart.get(&collection.resource).unwrap_or(&self.usual).open(collection)
    }

    /// Each of the stores has to answer.
    async fn ping(&self) -> Result<()> {
        let all = self.apart.values().chain([&self.usual]);
        try_join_all(all.map(|backend| backend.ping())).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::{Freshness, Key, memory::Memory};

    #[tokio::test]
    async fn a_resource_lies_in_its_own_store_and_others_in_the_usual_one() {
        let (usual, events) = (Arc::new(Memory::new()), Arc::new(Memory::new()));
        let resource = |name: &str| GroupResource::new("", name);
        let divided = Divided::new(usual.clone(), [(resource("events"), events.clone() as Arc<dyn Backend>)]);
        let key = Key::new("default", "a");
        for name in ["events", "pods"] {
            let object = apimachinery::Object::from_value(json!({"metadata": {"name": "a"}})).unwrap();
            divided.open(Collection::new(resource(name), format!("/registry/{name}"))).create(&key, object, None).await.unwrap();
        }
        for (backend, name, there) in
            [(&usual, "events", false), (&usual, "pods", true), (&events, "events", true), (&events, "pods", false)]
        {
            let storage = backend.open(Collection::new(resource(name), format!("/registry/{name}")));
            assert_eq!(storage.get(&key, Freshness::Latest).await.is_ok(), there, "{name}");
        }
    }
}

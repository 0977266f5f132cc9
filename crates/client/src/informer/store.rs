//! The cache itself: objects by key, and indexes over them. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use kube::Resource;

use super::Change;
use crate::Key;

/// Names the values under which an index finds an object.
pub type IndexFn<K> = fn(&K) -> Vec<String>;

struct Index<K> {
    values: IndexFn<K>,
    keys: HashMap<String, BTreeSet<Key>>,
}

pub(super) struct Store<K> {
    objects: BTreeMap<Key, Arc<K>>,
    indexes: HashMap<&'static str, Index<K>>,
}

/// What list or watch reported.
pub(super) enum Update<K> {
    Replace(Vec<K>),
    Put(K),
    Remove(K),
}

/// An owned [`Change`].
#[derive(Debug)]
pub(super) enum Applied<K> {
    Added(Arc<K>),
    Updated { old: Arc<K>, new: Arc<K> },
    Deleted(Arc<K>),
}

impl<K> Applied<K> {
    pub(super) fn as_ref(&self) -> Change<'_, K> {
        match self {
            Self::Added(object) => Change::Added(object),
            Self::Updated { old, new } => Change::Updated { old, new },
            Self::Deleted(object) => Change::Deleted(object),
        }
    }
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), indexes: HashMap::new() }
    }
}

impl<K: Resource> Store<K> {
    pub(super) fn add_index(&mut self, name: &'static str, values: IndexFn<K>) {
        if self.indexes.contains_key(name) {
            return;
        }
        let mut index = Index { values, keys: HashMap::new() };
        for (key, object) in &self.objects {
            index.insert(key, object);
        }
        self.indexes.insert(name, index);
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn list(&self) -> Vec<Arc<K>> {
        self.objects.values().cloned().collect()
    }

    pub(super) fn list_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let from = self.objects.range(Key::new(namespace, "")..);
        from.take_while(|(key, _)| key.namespace == namespace).map(|(_, object)| Arc::clone(object)).collect()
    }

    pub(super) fn by_index(&self, index: &str, value: &str) -> Vec<Arc<K>> {
        let keys = self.indexes.get(index).and_then(|index| index.keys.get(value));
        keys.into_iter().flatten().filter_map(|key| self.get(key)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn apply(&mut self, update: Update<K>) -> Vec<Applied<K>> {
        match update {
            Update::Put(object) => self.put(object),
            Update::Remove(object) => {
                self.remove(&Key::of(object.meta())).map(|_| Applied::Deleted(Arc::new(object))).into_iter().collect()
            }
            Update::Replace(objects) => self.replace(objects),
        }
    }

    fn replace(&mut self, objects: Vec<K>) -> Vec<Applied<K>> {
        let present: BTreeSet<Key> = objects.iter().map(|object| Key::of(object.meta())).collect();
        let gone: Vec<Key> = self.objects.keys().filter(|key| !present.contains(key)).cloned().collect();
        let deleted: Vec<_> = gone.iter().filter_map(|key| self.remove(key)).map(Applied::Deleted).collect();
        let put = objects.into_iter().flat_map(|object| self.put(object));
        deleted.into_iter().chain(put).collect()
    }

    fn put(&mut self, mut object: K) -> Vec<Applied<K>> {
        object.meta_mut().managed_fields = None;
        let (key, new) = (Key::of(object.meta()), Arc::new(object));
        let old = self.remove(&key);
        for index in self.indexes.values_mut() {
            index.insert(&key, &new);
        }
        self.objects.insert(key, Arc::clone(&new));
        match old {
            None => vec![Applied::Added(new)],
            // Replaced while nobody watched: users keep things by UID, and must see the old one go.
            Some(old) if old.meta().uid != new.meta().uid => vec![Applied::Deleted(old), Applied::Added(new)],
            Some(old) if old.meta().resource_version == new.meta().resource_version => vec![],
            Some(old) => vec![Applied::Updated { old, new }],
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<K>> {
        let object = self.objects.remove(key)?;
        for index in self.indexes.values_mut() {
            index.remove(key, &object);
        }
        Some(object)
    }
}

impl<K> Index<K> {
    fn insert(&mut self, key: &Key, object: &K) {
        for value in (self.values)(object) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &Key, object: &K) {
        for value in (self.values)(object) {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::{Applied, Store, Update};
    use crate::Key;

    fn pod(name: &str, version: &str, node: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": name, "resourceVersion": version},
            "spec": {"nodeName": node, "containers": []},
        }))
        .unwrap()
    }

    fn by_node() -> Store<Pod> {
        let mut store = Store::default();
        store.add_index("node", |pod: &Pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect());
        store
    }

    fn names(store: &Store<Pod>, node: &str) -> Vec<String> {
        store.by_index("node", node).iter().filter_map(|pod| pod.metadata.name.clone()).collect()
    }

    #[test]
    fn an_object_moves_between_index_values() {
        let mut store = by_node();
        store.apply(Update::Put(pod("a", "1", "n1")));
        store.apply(Update::Put(pod("a", "2", "n2")));
        assert!(names(&store, "n1").is_empty());
        assert_eq!(names(&store, "n2"), ["a"]);
    }

    #[test]
    fn a_new_list_tells_what_vanished_changed_and_came() {
        let mut store = by_node();
        store.apply(Update::Replace(vec![pod("gone", "1", "n"), pod("same", "2", "n"), pod("changed", "3", "n")]));
        let applied = store.apply(Update::Replace(vec![pod("same", "2", "n"), pod("changed", "5", "n"), pod("new", "6", "n")]));
        assert!(matches!(
            &applied[..],
            [Applied::Deleted(gone), Applied::Updated { new: changed, .. }, Applied::Added(new)]
                if [gone, changed, new].map(|pod| pod.metadata.name.as_deref())
                    == [Some("gone"), Some("changed"), Some("new")]
        ));
    }

    #[test]
    fn another_object_of_the_same_name_tells_that_the_old_one_is_gone() {
        let with_uid = |uid: &str, version: &str| {
            let mut pod = pod("a", version, "n");
            pod.metadata.uid = Some(uid.into());
            pod
        };
        let mut store = by_node();
        store.apply(Update::Put(with_uid("first", "1")));
        let listed = store.apply(Update::Replace(vec![with_uid("second", "2")]));
        let watched = store.apply(Update::Put(with_uid("third", "3")));
        for (applied, uids) in [(listed, ["first", "second"]), (watched, ["second", "third"])] {
            assert!(matches!(
                &applied[..],
                [Applied::Deleted(old), Applied::Added(new)]
                    if [old, new].map(|pod| pod.metadata.uid.as_deref()) == uids.map(Some)
            ));
        }
        assert_eq!(names(&store, "n"), ["a"]);
    }

    #[test]
    fn lists_one_namespace_only() {
        let mut store = by_node();
        let mut other = pod("x", "1", "n");
        other.metadata.namespace = Some("default-2".into());
        store.apply(Update::Replace(vec![pod("a", "1", "n"), other]));
        assert_eq!(store.list_namespace("default").len(), 1);
        assert!(store.get(&Key::new("default-2", "x")).is_some());
    }
}

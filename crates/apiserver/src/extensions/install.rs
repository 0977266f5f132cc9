//! Definitions into the catalog and out of it.

use std::{collections::BTreeMap, sync::Arc};

use apimachinery::{Object, gvk::GroupResource};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::{
    registry::{
        apiextensions::view::Definition,
        catalog::{Catalog, Served},
        custom,
        store::Hub,
    },
    storage::Storage,
};

/// A digest of what of a definition decides how instances are served.
type Shape = [u8; 32];

struct Installed {
    group: String,
    plural: String,
    shape: Shape,
    terminating: bool,
    storage: Arc<dyn Storage>,
    retired: CancellationToken,
}

/// Keeps the catalog's custom resources.
pub(super) struct Installer {
    hub: Arc<Hub>,
    installed: BTreeMap<String, Installed>,
}

impl Installer {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, installed: BTreeMap::new() }
    }

    /// Brings the catalog in line with these definitions, each under its name; `None` stands for one that is gone.
    pub(super) fn install(&mut self, definitions: &[(&str, Option<Object>)]) {
        let mut catalog: Option<Catalog> = None;
        let mut retired = Vec::new();
        for (name, definition) in definitions {
            let wanted = definition.as_ref().map(Definition).filter(|definition| definition.is_served() && self.has_place(*definition));
            let settled = match wanted {
                Some(definition) => self.is_current(name, definition),
                None => !self.installed.contains_key(*name),
            };
            if settled {
                continue;
            }
            let catalog = catalog.get_or_insert_with(|| Catalog::clone(&self.hub.catalog.load()));
            let old = self.installed.remove(*name);
            if let Some(old) = &old {
                catalog.remove_custom(&old.group, &old.plural);
            }
            let kept = wanted.is_some_and(|definition| self.add(name, definition, old.as_ref(), catalog));
            retired.extend(old.filter(|_| !kept).map(|old| old.retired));
        }
        if let Some(catalog) = catalog {
            self.hub.catalog.store(Arc::new(catalog));
        }
        // Whoever watched finds the new state when they come again.
        retired.iter().for_each(CancellationToken::cancel);
    }

    /// Built-in resources stay what they are.
    fn has_place(&self, definition: Definition<'_>) -> bool {
        !self.hub.catalog.load().is_builtin(definition.group(), definition.plural())
    }

    fn is_current(&self, name: &str, definition: Definition<'_>) -> bool {
        let same = |known: &Installed| known.terminating == definition.is("Terminating") && known.shape == shape(definition);
        self.installed.get(name).is_some_and(same)
    }

    /// Adds a definition; whether it goes on with the storage and the watches of before.
    fn add(&mut self, name: &str, definition: Definition<'_>, old: Option<&Installed>, catalog: &mut Catalog) -> bool {
        let shape = shape(definition);
        let (versions, fields) = custom::build(definition);
        let old = old.filter(|old| old.shape == shape);
        let (storage, retired) = match old {
            Some(old) => (old.storage.clone(), old.retired.clone()),
            None => {
                let resource = GroupResource::new(definition.group(), definition.plural());
                let place = format!("{}/{}", definition.group(), definition.plural());
                (self.hub.open(resource, &place, fields), CancellationToken::new())
            }
        };
        for version in versions {
            let (storage, retired) = (Some(storage.clone()), retired.clone());
            catalog.add(Served { resource: Arc::new(version.resource), schema: version.schema, storage, retired });
        }
        let (group, plural) = (definition.group().to_owned(), definition.plural().to_owned());
        let (terminating, kept) = (definition.is("Terminating"), old.is_some());
        self.installed.insert(name.to_owned(), Installed { group, plural, shape, terminating, storage, retired });
        kept
    }
}

fn shape(definition: Definition<'_>) -> Shape {
    let decides = (definition.0.uid(), definition.spec(), definition.accepted(), definition.stored_versions());
    // Writing JSON values into memory cannot fail.
    Sha256::digest(serde_json::to_vec(&decides).unwrap_or_default()).into()
}

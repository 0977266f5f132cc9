//! Writing the status of what a controller controls.

use std::fmt;

use anyhow::Context as _;
use client::{Key, retry};
use kube::{Api, Client, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};

use crate::owner::Namespaced;

/// Writes the status that `new` has, unless it is as `old` had it; an object that is gone needs none.
///
/// # Errors
/// The server refuses it, or has a newer object.
pub(crate) async fn write<K>(client: &Client, key: &Key, old: &K, new: &K) -> anyhow::Result<()>
where
    K: Namespaced + Clone + PartialEq + Serialize + DeserializeOwned + fmt::Debug,
{
    if old == new {
        return Ok(());
    }
    let api: Api<K> = Api::namespaced(client.clone(), &key.namespace);
    let written = api.replace_status(&key.name, &PostParams::default(), new).await;
    retry::optional(written).with_context(|| format!("update status of {}", K::kind(&())))?;
    Ok(())
}

//! Many CustomResourceDefinitions: what each costs, and what OpenAPI of all of them costs.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use http::Method;
use tokio::time::sleep;

use super::{Context, MAKERS};
use crate::{
    client::{Connection, Request},
    report::{Row, mebibytes},
    things,
};

const ALL: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// All of them are served within this time.
const SERVED: Duration = Duration::from_secs(120);

pub(super) async fn make(context: &Context) -> anyhow::Result<Vec<Row>> {
    let (count, run) = (context.sizes.definitions, context.namespace.as_str());
    let before = context.resident().await;
    let measured = context.each(MAKERS, count, |number| Request::new(Method::POST, ALL).body(things::definition(number, run))).await?;
    served(&context.target.connect().await?, run, count).await?;
    let after = context.resident().await;
    let each = after.saturating_sub(before) as f64 / count.max(1) as f64 / 1024.0;
    let note = format!("memory {:.1} to {:.1} MiB, {each:.1} KiB each", mebibytes(before), mebibytes(after));
    let mut rows = vec![context.row(format!("create {count} definitions, {MAKERS} clients"), measured, note)];
    rows.extend(open_api(context).await?);
    Ok(rows)
}

/// Waits until every definition is established and the last one served.
async fn served(connection: &Connection, run: &str, count: usize) -> anyhow::Result<()> {
    let began = Instant::now();
    let path = format!("/apis/{}/v1/things{}", things::group(count - 1, run), count - 1);
    loop {
        let all = connection.call(Request::new(Method::GET, format!("{ALL}?labelSelector=bench%3D{run}"))).await?;
        let all: serde_json::Value = serde_json::from_slice(&all)?;
        let established = all["items"].as_array().into_iter().flatten().filter(|definition| is_established(definition)).count();
        if established == count && connection.call(Request::new(Method::GET, &path)).await.is_ok() {
            return Ok(());
        }
        if began.elapsed() > SERVED {
            bail!("{established} of {count} definitions are established after {SERVED:?}");
        }
        sleep(Duration::from_millis(200)).await;
    }
}

fn is_established(definition: &serde_json::Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// The index, one document when first asked for and when asked again, and the one of everything.
async fn open_api(context: &Context) -> anyhow::Result<Vec<Row>> {
    let index = context.target.connect().await?.call(Request::new(Method::GET, "/openapi/v3")).await?;
    let index: serde_json::Value = serde_json::from_slice(&index)?;
    let url = |path: &str| index["paths"][path]["serverRelativeURL"].as_str().unwrap_or_default().to_owned();
    let (core, custom) = (url("api/v1"), url(&format!("apis/{}/v1", things::group(0, &context.namespace))));
    ensure!(!core.is_empty() && !custom.is_empty(), "the index of OpenAPI misses groups");
    let mut rows = Vec::new();
    for (name, path, count) in [
        ("index of OpenAPI", "/openapi/v3".to_owned(), context.sizes.lists),
        ("OpenAPI of core, first", core.clone(), 0),
        ("OpenAPI of core, again", core, context.sizes.lists),
        ("OpenAPI of a custom group, first", custom.clone(), 0),
        ("OpenAPI of a custom group, again", custom, context.sizes.lists),
        ("OpenAPI of everything, first", "/openapi/v2".to_owned(), 0),
    ] {
        let request = |_| Request::new(Method::GET, &path);
        // What is asked for the first time cannot be asked twice.
        let measured = context.each(1, count.max(1), request).await?;
        rows.push(context.row(name, measured, ""));
    }
    Ok(rows)
}

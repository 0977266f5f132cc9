//! Lists of many pods, in each form.

use http::Method;
use tests::bench::dice;

use super::{Context, MAKERS};
use crate::{
    client::Request,
    report::{Row, mebibytes},
    things,
};

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// What it is called, the type asked for, the query.
const FORMS: [(&str, &str, &str); 6] = [
    ("JSON", JSON, ""),
    ("JSON of any age", JSON, "resourceVersion=0"),
    ("Table", TABLE, ""),
    ("metadata only", METADATA, ""),
    ("label selector, 1 %", JSON, things::CHOSEN_LABEL),
    ("field selector, 1 %", JSON, things::CHOSEN_FIELD),
];

pub(super) async fn list(context: &Context) -> anyhow::Result<Vec<Row>> {
    let (path, mut there, mut rows) = (context.path("pods"), 0, Vec::new());
    for wanted in &context.sizes.pods {
        let before = context.resident().await;
        let first = there;
        let create = |number: usize| Request::new(Method::POST, &path).body(things::pod(first + number, &mut dice(first + number)));
        let made = wanted.saturating_sub(there);
        let measured = context.each(MAKERS, made, create).await?;
        there = there.max(*wanted);
        let each = context.resident().await.saturating_sub(before) as f64 / made.max(1) as f64 / 1024.0;
        rows.push(context.row(format!("create pods up to {there}, {MAKERS} clients"), measured, format!("{each:.1} KiB of memory each")));
        for (name, accept, query) in FORMS {
            let request = || Request::new(Method::GET, format!("{path}?{query}")).accept(accept);
            let (measured, length) = context.again(context.sizes.lists, request).await?;
            rows.push(context.row(format!("list {there} pods, {name}"), measured, format!("{:.1} MiB", mebibytes(length as u64))));
        }
    }
    Ok(rows)
}

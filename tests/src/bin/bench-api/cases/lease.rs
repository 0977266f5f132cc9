//! Leases, as nodes and control loops renew them all the time.

use std::sync::Arc;

use anyhow::Context as _;
use http::Method;
use tests::bench::Client;
use tokio::sync::Mutex;

use super::{Context, clients};
use crate::{
    client::{Connection, Request},
    report::Row,
    things,
};

const RENEWED: &str = "2026-01-01T00:00:00.000000Z";

pub(super) async fn renew(context: &Context) -> anyhow::Result<Vec<Row>> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", context.namespace);
    let mut rows = Vec::new();
    for count in &context.sizes.clients {
        let mut made: Vec<Client<anyhow::Error>> = Vec::with_capacity(*count);
        for (index, connection) in context.connections(*count).await?.into_iter().enumerate() {
            let lease = Arc::new(Mutex::new(Lease::make(connection, &path, format!("lease-{count}-{index}")).await?));
            made.push(Box::new(move || {
                let lease = lease.clone();
                Box::pin(async move { lease.lock().await.renew().await })
            }));
        }
        let measured = context.closed_loop(made).await;
        rows.push(context.row(format!("lease, {}", clients(*count)), measured, ""));
    }
    Ok(rows)
}

struct Lease {
    connection: Connection,
    path: String,
    name: String,
    version: String,
    renewals: u32,
}

impl Lease {
    async fn make(connection: Connection, path: &str, name: String) -> anyhow::Result<Self> {
        let made = connection.call(Request::new(Method::POST, path).body(things::lease(&name, None, RENEWED))).await?;
        Ok(Self { connection, path: format!("{path}/{name}"), name, version: version(&made)?.to_owned(), renewals: 0 })
    }

    async fn renew(&mut self) -> anyhow::Result<()> {
        self.renewals += 1;
        let renewed = format!("2026-01-01T00:00:00.{:06}Z", self.renewals % 1_000_000);
        let body = things::lease(&self.name, Some(&self.version), &renewed);
        let answer = self.connection.call(Request::new(Method::PUT, &self.path).body(body)).await?;
        version(&answer)?.clone_into(&mut self.version);
        Ok(())
    }
}

/// The `resourceVersion` of an object in JSON: its first one.
fn version(json: &[u8]) -> anyhow::Result<&str> {
    let text = std::str::from_utf8(json)?;
    let (_, rest) = text.split_once(r#""resourceVersion":""#).context("an answer without a version")?;
    Ok(rest.split('"').next().unwrap_or_default())
}

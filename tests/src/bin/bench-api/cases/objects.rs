//! ConfigMaps of 1 KiB: the path of every write and read.

use http::Method;
use tests::bench::{Client, Measured, dice};

use super::{Context, MAKERS, client, clients};
use crate::{
    client::{Connection, Request},
    report::Row,
    things,
};

const MERGE: &str = "application/merge-patch+json";

pub(super) async fn create(context: &Context) -> anyhow::Result<Vec<Row>> {
    let make = |run: usize, index: usize, connection: Connection| {
        let (path, mut dice, mut number) = (context.path("configmaps"), dice(index), 0);
        client(connection, move || {
            number += 1;
            Request::new(Method::POST, &path).body(things::config_map(&format!("create-{run}-{index}-{number}"), &mut dice))
        })
    };
    each(context, "create", make).await
}

pub(super) async fn get(context: &Context) -> anyhow::Result<Vec<Row>> {
    make_own(context).await?;
    let make = |_, index: usize, connection: Connection| {
        let path = context.path(&format!("configmaps/own-{index}"));
        client(connection, move || Request::new(Method::GET, &path))
    };
    each(context, "get", make).await
}

pub(super) async fn update(context: &Context) -> anyhow::Result<Vec<Row>> {
    make_own(context).await?;
    let make = |_, index: usize, connection: Connection| {
        let (name, mut dice) = (format!("own-{index}"), dice(index));
        let path = context.path(&format!("configmaps/{name}"));
        client(connection, move || Request::new(Method::PUT, &path).body(things::config_map(&name, &mut dice)))
    };
    each(context, "update", make).await
}

pub(super) async fn patch(context: &Context) -> anyhow::Result<Vec<Row>> {
    make_own(context).await?;
    let make = |_, index: usize, connection: Connection| {
        let (path, mut dice) = (context.path(&format!("configmaps/own-{index}")), dice(index));
        client(connection, move || Request::new(Method::PATCH, &path).content_type(MERGE).body(things::patch(&mut dice)))
    };
    each(context, "patch", make).await
}

pub(super) async fn delete(context: &Context) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for count in &context.sizes.clients {
        let name = |number: usize| format!("delete-{count}-{number}");
        let path = context.path("configmaps");
        let create = |number: usize| Request::new(Method::POST, &path).body(things::config_map(&name(number), &mut dice(number)));
        context.each(MAKERS, context.sizes.deletes, create).await?;
        let delete = |number: usize| Request::new(Method::DELETE, format!("{path}/{}", name(number)));
        let measured = context.each(*count, context.sizes.deletes, delete).await?;
        rows.push(context.row(format!("delete, {}", clients(*count)), measured, ""));
    }
    Ok(rows)
}

/// Measures with each number of clients, which `make` makes by run and index.
async fn each(context: &Context, name: &str, make: impl Fn(usize, usize, Connection) -> Client<anyhow::Error>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (run, count) in context.sizes.clients.iter().enumerate() {
        let connections = context.connections(*count).await?;
        let made = connections.into_iter().enumerate().map(|(index, connection)| make(run, index, connection)).collect();
        let measured: Measured = context.closed_loop(made).await;
        rows.push(context.row(format!("{name}, {}", clients(*count)), measured, ""));
    }
    Ok(rows)
}

/// An object for each client, if another case has not made it yet.
async fn make_own(context: &Context) -> anyhow::Result<()> {
    let count = context.sizes.clients.iter().copied().max().unwrap_or_default();
    let replace = |index: usize| {
        let name = format!("own-{index}");
        // Applied, it is there afterwards, whether it was there before or not.
        let path = context.path(&format!("configmaps/{name}?fieldManager=bench&force=true"));
        let apply = Request::new(Method::PATCH, path).content_type("application/apply-patch+yaml");
        apply.body(things::config_map(&name, &mut dice(index)))
    };
    context.each(1, count, replace).await.map(drop)
}

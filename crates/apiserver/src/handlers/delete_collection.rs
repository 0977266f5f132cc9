//! DELETE of a collection: what matches, a few at a time; answers the list of what was found.

use apimachinery::status::{Status, reason};
use axum::response::Response;
use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};

use super::{Ask, list, options};

/// Deletions under way at a time.
const PARALLEL: usize = 8;

pub(super) async fn serve(mut ask: Ask) -> Result<Response, Status> {
    let body = ask.body().await?;
    let (options, value) = options::delete(&ask.query, ask.headers(), &body)?;
    ask.ctx.dry_run = options.dry_run;
    let store = ask.store()?;
    let found = store.list(&ask.ctx, list::list_options(&ask)?).await?;
    let names: Vec<String> = found.items.iter().map(|entry| entry.key().name.clone()).collect();
    let (ctx, store_of, options, value) = (&ask.ctx, &store, &options, &value);
    let delete = |name: String| -> BoxFuture<'_, Result<(), Status>> {
        async move {
            match store_of.delete(ctx, &name, options, value).await {
                Err(status) if !status.is(reason::NOT_FOUND) => Err(status),
                _ => Ok(()),
            }
        }
        .boxed()
    };
    stream::iter(names).map(delete).buffer_unordered(PARALLEL).try_collect::<Vec<()>>().await?;
    list::render(&ask, &store, &found)
}

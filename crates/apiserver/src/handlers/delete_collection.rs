//! DELETE of a collection: what matches, a few at a time; answers the list of what was found.

use apimachinery::status::{Status, reason};
use axum::response::Response;
use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};

use super::{Ask, list, options};
use crate::registry::DeleteOptions;

/// Deletions under way at a time.
const PARALLEL: usize = 8;

pub(super) async fn serve(mut ask: Ask) -> Result<Response, Status> {
    let body = ask.body().await?;
    let (options, value) = options::delete(&ask.query, ask.headers(), ask.server.cbor, &body)?;
    ask.ctx.dry_run = options.dry_run;
    let store = ask.store()?;
    let found = store.list(&ask.ctx, list::list_options(&ask)?).await?;
    let all: Vec<(String, String)> = found.items.iter().map(|entry| (entry.key().name.clone(), entry.object().uid().to_owned())).collect();
    let (ctx, store_of, options, value) = (&ask.ctx, &store, &options, &value);
    let delete = |(name, uid): (String, String)| -> BoxFuture<'_, Result<(), Status>> {
        async move {
            // Only what was found goes, not what has its name by now.
            let own = options.uid.is_none();
            let options = DeleteOptions { uid: options.uid.clone().or(Some(uid)), ..options.clone() };
            match store_of.delete(ctx, &name, &options, value).await {
                Err(status) if status.is(reason::NOT_FOUND) => Ok(()),
                Err(status) if own && is_another(&status) => Ok(()),
                outcome => outcome.map(drop),
            }
        }
        .boxed()
    };
    stream::iter(all).map(delete).buffer_unordered(PARALLEL).try_collect::<Vec<()>>().await?;
    list::render(&ask, &store, &found)
}

/// Whether the object found is gone and another has its name by now.
fn is_another(status: &Status) -> bool {
    let said = |text: &str| status.message.contains(text);
    status.is(reason::CONFLICT) && (said("the UID in the precondition") || said("UID in precondition"))
}

//! One service account per controller, so that each has just the rights of its upstream counterpart.

use std::time::Duration;

use client::{
    connect::{Connector, Token},
    retry,
};
use component::{Shutdown, backoff::Backoff};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

const NAMESPACE: &str = "kube-system";
/// Requested lifetime of a token; the server may give less.
const LIFETIME: i64 = 3600;
/// A token is replaced when this share of its life is over.
const RENEW_AT: f64 = 0.8;

/// A client that acts as `kube-system/account` and keeps its token fresh until `shutdown`.
///
/// Waits until the first token is there; `None` if `shutdown` comes first.
pub(crate) async fn client(connector: &Connector, root: &Client, account: &'static str, shutdown: Shutdown) -> Option<Client> {
    let token = Token::default();
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
    let made = async {
        loop {
            match first(connector, root, account, &token).await {
                Ok(ready) => return ready,
                Err(error) => {
                    tracing::warn!(account, error = format!("{error:#}"), "no identity yet, retrying");
                    backoff.wait().await;
                }
            }
        }
    };
    let (client, lifetime) = shutdown.run_until_cancelled(made).await?;
    let root = root.clone();
    tokio::spawn(async move { shutdown.run_until_cancelled(keep_fresh(root, account, token, lifetime)).await });
    Some(client)
}

async fn first(connector: &Connector, root: &Client, account: &str, token: &Token) -> anyhow::Result<(Client, Duration)> {
    let lifetime = renew(root, account, token).await?;
    Ok((connector.client_with_token(token.clone()).await?, lifetime))
}

async fn keep_fresh(root: Client, account: &str, token: Token, mut lifetime: Duration) {
    loop {
        tokio::time::sleep(retry::jitter(lifetime.mul_f64(RENEW_AT), 0.1)).await;
        lifetime = match renew(&root, account, &token).await {
            Ok(lifetime) => lifetime,
            Err(error) => {
                tracing::warn!(account, %error, "cannot renew service account token, retrying");
                Duration::from_secs(10)
            }
        };
    }
}

/// Puts a new token into `token`; how long it is good for.
async fn renew(root: &Client, account: &str, token: &Token) -> kube::Result<Duration> {
    let accounts: Api<ServiceAccount> = Api::namespaced(root.clone(), NAMESPACE);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec { expiration_seconds: Some(LIFETIME), ..TokenRequestSpec::default() }),
        ..TokenRequest::default()
    };
    let issued = match accounts.create_token_request(account, &PostParams::default(), &request).await {
        Err(error) if retry::is_not_found(&error) => {
            create(&accounts, account).await?;
            accounts.create_token_request(account, &PostParams::default(), &request).await?
        }
        result => result?,
    };
    let status = issued.status.unwrap_or_default();
    token.replace(status.token.unwrap_or_default());
    let until = status.expiration_timestamp.map(|time| time.0.duration_since(component::clock::now()));
    let left = until.and_then(|left| Duration::try_from(left).ok()).unwrap_or_default();
    Ok(left.max(Duration::from_secs(10)))
}

async fn create(accounts: &Api<ServiceAccount>, account: &str) -> kube::Result<()> {
    let metadata = ObjectMeta { name: Some(account.into()), namespace: Some(NAMESPACE.into()), ..ObjectMeta::default() };
    let wanted = ServiceAccount { metadata, ..ServiceAccount::default() };
    match accounts.create(&PostParams::default(), &wanted).await {
        Err(error) if retry::is_already_exists(&error) => Ok(()),
        result => result.map(drop),
    }
}

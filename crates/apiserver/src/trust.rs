//! Whom to believe and what to let through: authentication, authorization and admission as the flags say.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use component::Shutdown;
use serde_json::json;

use crate::Config;
use crate::admission::{Admission, Chain, plugins::Plugins};
use crate::authn::bearer::Bearer;
use crate::authn::client_ca::ClientCa;
use crate::authn::front_proxy::{Claims, FrontProxy, Headers};
use crate::authn::service_account::{PublicKey, Signer, Verifier, load_private, load_public};
use crate::authn::x509::ClientCertificate;
use crate::authn::{self, Authenticator};
use crate::authz::node::NodeAuthorizer;
use crate::authz::rbac::{EscalationGuard, Rbac};
use crate::authz::rules::Rules;
use crate::authz::{self, AlwaysAllow, AlwaysDeny, Authorizer};
use crate::bootstrap;
use crate::loopback::Loopback;
use crate::registry::{RuleResolver, TokenIssuer, TokenReviewer};
use crate::server::IssuerDocuments;

/// Everything that decides about requests before a resource sees them.
pub(crate) struct Trust {
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) claims: Claims,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) admission: Chain,
    pub(crate) rules: Option<Arc<dyn RuleResolver>>,
    pub(crate) issuer: Option<Arc<dyn TokenIssuer>>,
    pub(crate) reviewer: Option<Arc<dyn TokenReviewer>>,
    pub(crate) issuer_documents: Option<IssuerDocuments>,
    /// What other servers need to know to believe the same clients.
    pub(crate) published: BTreeMap<String, String>,
    /// Keeps the above up to date.
    pub(crate) upkeep: Upkeep,
}

/// What runs in the background for [`Trust`].
pub(crate) struct Upkeep {
    authorities: Vec<Arc<ClientCa>>,
    pub(crate) rbac: Option<Arc<Rbac>>,
    node: Option<Arc<NodeAuthorizer>>,
    plugins: Plugins,
}

impl Trust {
    /// Reads keys and authorities. `advertised` is the `HOST:PORT` that the issuer's documents name.
    pub(crate) fn from_config(config: &Config, api: &Loopback, advertised: &str) -> anyhow::Result<Self> {
        let accounts = Accounts::from_config(config, api, advertised)?;
        let headers = headers(config);
        let claims = Claims::new(&headers);
        let (authenticator, authorities, published) = authenticator(config, headers, accounts.reviewer.clone())?;
        let has = |mode: &str| config.authorization_mode.iter().any(|given| given == mode);
        let rbac = has("RBAC").then(|| Arc::new(Rbac::default()));
        let node = has("Node").then(|| Arc::new(NodeAuthorizer::default()));
        let authorizer = authorizer(&config.authorization_mode, rbac.as_ref(), node.as_ref());
        let rules = rbac.as_ref().map(|rbac| Arc::new(Rules::new(rbac.clone(), node.is_some())) as Arc<dyn RuleResolver>);
        let guard = rbac.as_ref().map(|rbac| Arc::new(EscalationGuard::new(rbac.clone(), authorizer.clone())) as Arc<dyn Admission>);
        let plugins = Plugins::new(api);
        let admission = plugins.chain(&config.enable_admission_plugins, &config.disable_admission_plugins, guard.into_iter().collect())?;
        let upkeep = Upkeep { authorities, rbac, node, plugins };
        let Accounts { issuer, reviewer, documents: issuer_documents } = accounts;
        Ok(Self { authenticator, claims, authorizer, admission, rules, issuer, reviewer, issuer_documents, published, upkeep })
    }
}

impl Upkeep {
    /// Follows files and objects until shutdown.
    pub(crate) async fn run(self, api: Loopback, shutdown: Shutdown) {
        let files = futures::future::join_all(self.authorities.into_iter().map(|ca| ca.follow(shutdown.clone())));
        let rbac = async {
            if let Some(rbac) = self.rbac {
                rbac.run(api.clone()).await;
            }
        };
        let node = async {
            if let Some(node) = self.node {
                node.run(api.clone()).await;
            }
        };
        tokio::select! {
            _ = async { tokio::join!(files, rbac, node, self.plugins.run(&api)) } => {}
            () = shutdown.cancelled() => {}
        }
    }
}

/// Which front proxies to believe, as the flags say.
fn headers(config: &Config) -> Headers {
    Headers {
        allowed_names: config.requestheader_allowed_names.clone(),
        username: config.requestheader_username_headers.clone(),
        uid: config.requestheader_uid_headers.clone(),
        group: config.requestheader_group_headers.clone(),
        extra_prefix: config.requestheader_extra_headers_prefix.clone(),
    }
}

/// Certificates first, as upstream asks: a front proxy's word, a client's own, then tokens.
#[allow(clippy::type_complexity)]
fn authenticator(
    config: &Config,
    headers: Headers,
    reviewer: Option<Arc<dyn TokenReviewer>>,
) -> anyhow::Result<(Arc<dyn Authenticator>, Vec<Arc<ClientCa>>, BTreeMap<String, String>)> {
    let load = |path: &Option<std::path::PathBuf>| path.as_deref().map(ClientCa::load).transpose();
    let (client_ca, proxy_ca) = (load(&config.client_ca_file)?, load(&config.requestheader_client_ca_file)?);
    let published =
        bootstrap::authentication::data(client_ca.as_ref().map(|ca| ca.pem()), proxy_ca.as_ref().map(|ca| (ca.pem(), &headers)));
    let mut authenticators: Vec<Arc<dyn Authenticator>> = Vec::new();
    if let Some(ca) = &proxy_ca {
        authenticators.push(Arc::new(FrontProxy::new(ca.clone(), headers)));
    }
    if let Some(ca) = &client_ca {
        authenticators.push(Arc::new(ClientCertificate::new(ca.clone())));
    }
    if let Some(reviewer) = reviewer {
        authenticators.push(Arc::new(Bearer::new(reviewer)));
    }
    let authorities = client_ca.into_iter().chain(proxy_ca).collect();
    Ok((Arc::new(authn::Union::new(authenticators)), authorities, published))
}

fn authorizer(modes: &[String], rbac: Option<&Arc<Rbac>>, node: Option<&Arc<NodeAuthorizer>>) -> Arc<dyn Authorizer> {
    let one = |mode: &String| -> Option<Arc<dyn Authorizer>> {
        match mode.as_str() {
            "Node" => Some(node?.clone()),
            "RBAC" => Some(rbac?.clone()),
            "AlwaysAllow" => Some(Arc::new(AlwaysAllow)),
            _ => Some(Arc::new(AlwaysDeny)),
        }
    };
    Arc::new(authz::Union::new(modes.iter().filter_map(one).collect()))
}

/// Service-account tokens, where a key is given.
#[derive(Default)]
struct Accounts {
    issuer: Option<Arc<dyn TokenIssuer>>,
    reviewer: Option<Arc<dyn TokenReviewer>>,
    documents: Option<IssuerDocuments>,
}

impl Accounts {
    fn from_config(config: &Config, api: &Loopback, advertised: &str) -> anyhow::Result<Self> {
        let files = match (&config.service_account_key_file, &config.service_account_signing_key_file) {
            (keys, _) if !keys.is_empty() => keys.clone(),
            (_, Some(signing)) => vec![signing.clone()],
            _ => return Ok(Self::default()),
        };
        let issuers = &config.service_account_issuer;
        ensure!(!issuers.is_empty(), "service-account-issuer is a required flag");
        let keys = files.iter().map(|file| load_public(file)).collect::<Result<Vec<_>, _>>().context("load service-account keys")?;
        let keys: Vec<PublicKey> = keys.into_iter().flatten().collect();
        let audiences = if config.api_audiences.is_empty() { vec![issuers[0].clone()] } else { config.api_audiences.clone() };
        let issuer = match &config.service_account_signing_key_file {
            Some(file) => {
                let key = load_private(file).context("load the service-account signing key")?;
                let most = config.service_account_max_token_expiration.as_secs();
                let most = (most > 0).then_some(i64::try_from(most).unwrap_or(i64::MAX));
                Some(Arc::new(Signer::new(issuers[0].clone(), audiences.clone(), most, key)) as Arc<dyn TokenIssuer>)
            }
            None => None,
        };
        let verifier = Verifier::new(issuers.clone(), audiences, keys, api.clone());
        let jwks_uri = config.service_account_jwks_uri.clone().unwrap_or_else(|| format!("https://{advertised}/openid/v1/jwks"));
        let configuration = json!({
            "issuer": issuers[0],
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": verifier.algorithms(),
        });
        let documents = Some(IssuerDocuments { configuration, jwks: verifier.jwks() });
        Ok(Self { issuer, reviewer: Some(Arc::new(verifier)), documents })
    }
}

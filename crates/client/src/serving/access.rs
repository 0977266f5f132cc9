//! Who may see what: the API server is asked, as upstream's delegated authentication and authorization do.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use component::serve::Peer;
use http::{StatusCode, header};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Paths anybody may see (upstream: `--authorization-always-allow-paths`, and the probes).
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/livez"];
/// How long an answer of the API server holds, and how many are kept.
const CACHE: Duration = Duration::from_secs(10);
const CACHED: usize = 1000;

/// Asks the API server about callers, and remembers the answers for a few seconds.
#[derive(Clone)]
pub(super) struct Gate(Arc<Shared>);

struct Shared {
    client: Client,
    allowed: Mutex<HashMap<(String, String), (bool, Instant)>>,
}

impl Gate {
    pub(super) fn new(client: Client) -> Self {
        Self(Arc::new(Shared { client, allowed: Mutex::new(HashMap::new()) }))
    }

    async fn user(&self, claim: Claim) -> kube::Result<Option<UserInfo>> {
        let token = match claim {
            Claim::Certificate(user) => return Ok(Some(*user)),
            Claim::Token(token) => token,
            Claim::None => return Ok(Some(anonymous())),
        };
        let review = TokenReview { spec: TokenReviewSpec { token, audiences: None }, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.0.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn allows(&self, user: UserInfo, path: &str) -> kube::Result<bool> {
        let key = (user.username.clone().unwrap_or_default(), path.to_owned());
        if let Some((allowed, at)) = self.0.allowed.lock().get(&key)
            && at.elapsed() < CACHE
        {
            return Ok(*allowed);
        }
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                groups: user.groups,
                uid: user.uid,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes { path: Some(path.into()), verb: Some("get".into()) }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.0.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        let mut cache = self.0.allowed.lock();
        if cache.len() >= CACHED {
            cache.clear();
        }
        cache.insert(key, (status.allowed, Instant::now()));
        Ok(status.allowed)
    }
}

/// Who a caller says to be.
enum Claim {
    Certificate(Box<UserInfo>),
    Token(String),
    None,
}

fn claim(request: &Request) -> Claim {
    let certificate = request.extensions().get::<Peer>().and_then(|peer| peer.certs.first());
    if let Some(user) = certificate.and_then(|der| from_certificate(der)) {
        return Claim::Certificate(Box::new(user));
    }
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
    token.map_or(Claim::None, |token| Claim::Token(token.to_owned()))
}

fn from_certificate(der: &[u8]) -> Option<UserInfo> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let organizations = subject.iter_organization().filter_map(|group| group.as_str().ok().map(str::to_owned));
    let groups = organizations.chain(["system:authenticated".to_owned()]).collect();
    Some(UserInfo { username: Some(name), groups: Some(groups), ..UserInfo::default() })
}

fn anonymous() -> UserInfo {
    UserInfo { username: Some("system:anonymous".into()), groups: Some(vec!["system:unauthenticated".into()]), ..UserInfo::default() }
}

pub(super) async fn check(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    if OPEN.iter().any(|open| path == *open || path.strip_prefix(open).is_some_and(|rest| rest.starts_with('/'))) {
        return next.run(request).await;
    }
    let user = match gate.user(claim(&request)).await {
        Ok(Some(user)) => user,
        Ok(None) => return StatusCode::UNAUTHORIZED.into_response(),
        Err(error) => return failed(&error),
    };
    let name = user.username.clone().unwrap_or_default();
    match gate.allows(user, &path).await {
        Ok(true) => next.run(request).await,
        Ok(false) => (StatusCode::FORBIDDEN, format!("forbidden: User \"{name}\" cannot get path \"{path}\"\n")).into_response(),
        Err(error) => failed(&error),
    }
}

fn failed(error: &kube::Error) -> Response {
    tracing::warn!(%error, "cannot ask the API server about a caller");
    (StatusCode::INTERNAL_SERVER_ERROR, "cannot ask the API server about the caller\n").into_response()
}

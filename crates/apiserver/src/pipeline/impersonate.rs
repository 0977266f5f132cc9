//! `Impersonate-*` headers: acts as somebody else, where the caller may.

use std::{collections::BTreeMap, sync::Arc};

use apimachinery::status::Status;
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::HeaderMap;

use super::forbidden::forbidden;
use crate::{
    authz::{Attributes, Decision},
    negotiate::{Negotiated, status_response},
    request::{RequestInfo, UserInfo},
    server::Server,
};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const ACCOUNT: &str = "system:serviceaccount:";

pub(super) async fn layer(State(server): State<Arc<Server>>, mut request: Request, next: Next) -> Response {
    let wanted = match wanted(request.headers()) {
        Ok(None) => return next.run(request).await,
        Ok(Some(wanted)) => wanted,
        Err(status) => return status_response(Negotiated::PLAIN, &status),
    };
    let caller = request.extensions().get::<UserInfo>().cloned().unwrap_or_else(UserInfo::anonymous);
    for info in questions(&wanted) {
        let decision = server.authorizer.authorize(&Attributes { user: &caller, info: &info }).await;
        if let Decision::Deny(reason) | Decision::NoOpinion(reason) = decision {
            return status_response(Negotiated::PLAIN, &forbidden(&caller, &info, &reason));
        }
    }
    tracing::debug!(caller = caller.name, user = wanted.name, "impersonation");
    request.extensions_mut().insert(complete(wanted));
    let headers = request.headers_mut();
    let names: Vec<_> = headers.keys().filter(|n| n.as_str().starts_with("impersonate-")).cloned().collect();
    names.iter().for_each(|name| drop(headers.remove(name)));
    next.run(request).await
}

/// Whom the headers name. Errors: 400 where they name groups or more, but no user.
fn wanted(headers: &HeaderMap) -> Result<Option<UserInfo>, Status> {
    let all = |name: &str| headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).map(str::to_owned).collect::<Vec<_>>();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA), value.to_str()) {
            let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
            extra.entry(key).or_default().push(value.to_owned());
        }
    }
    let user = UserInfo {
        name: all(USER).into_iter().next().unwrap_or_default(),
        uid: all(UID).into_iter().next().unwrap_or_default(),
        groups: all(GROUP),
        extra,
    };
    if user == UserInfo::default() {
        return Ok(None);
    }
    if user.name.is_empty() {
        return Err(Status::internal("requested impersonation without impersonating a user"));
    }
    Ok(Some(user))
}

/// What the caller must be allowed for it.
fn questions(user: &UserInfo) -> Vec<RequestInfo> {
    let ask = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| RequestInfo {
        is_resource: true,
        verb: "impersonate",
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..RequestInfo::default()
    };
    let mut asked = vec![match user.name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':')) {
        Some((namespace, name)) => ask("", "serviceaccounts", "", namespace, name),
        None => ask("", "users", "", "", &user.name),
    }];
    asked.extend(user.groups.iter().map(|g| ask("", "groups", "", "", g)));
    for (key, values) in &user.extra {
        asked.extend(values.iter().map(|v| ask("authentication.k8s.io", "userextras", key, "", v)));
    }
    if !user.uid.is_empty() {
        asked.push(ask("authentication.k8s.io", "uids", "", "", &user.uid));
    }
    asked
}

/// Adds the groups everybody has.
fn complete(mut user: UserInfo) -> UserInfo {
    if user.groups.is_empty()
        && let Some((namespace, _)) = user.name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'))
    {
        user.groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    let everybody = if user.name == "system:anonymous" { "system:unauthenticated" } else { "system:authenticated" };
    if !user.in_group("system:authenticated") && !user.in_group("system:unauthenticated") {
        user.groups.push(everybody.into());
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        pairs.iter().for_each(|(k, v)| drop(map.append(*k, v.parse().unwrap())));
        map
    }

    #[test]
    fn a_user_with_groups_needs_a_right_for_each() {
        let user = wanted(&headers(&[(USER, "jane"), (GROUP, "dev"), (GROUP, "ops")])).unwrap().unwrap();
        let asked: Vec<_> = questions(&user).into_iter().map(|i| format!("{}/{}", i.resource, i.name)).collect();
        assert_eq!(asked, ["users/jane", "groups/dev", "groups/ops"]);
        assert!(complete(user).in_group("system:authenticated"));
    }

    #[test]
    fn a_service_account_gets_its_groups() {
        let user = wanted(&headers(&[(USER, "system:serviceaccount:a:b")])).unwrap().unwrap();
        assert_eq!((&*questions(&user)[0].resource, &*questions(&user)[0].namespace), ("serviceaccounts", "a"));
        assert!(complete(user).in_group("system:serviceaccounts:a"));
    }

    #[test]
    fn groups_without_a_user_are_refused() {
        assert!(wanted(&headers(&[(GROUP, "dev")])).is_err());
        assert_eq!(wanted(&headers(&[])).unwrap(), None);
    }
}

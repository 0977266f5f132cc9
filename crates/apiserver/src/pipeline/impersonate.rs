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
    negotiate::{for_errors, status_response},
    request::{RequestInfo, UserInfo},
    server::Server,
};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const ACCOUNT: &str = "system:serviceaccount:";
const NODE: &str = "system:node:";
const NODES: &str = "system:nodes";

pub(super) async fn layer(State(server): State<Arc<Server>>, mut request: Request, next: Next) -> Response {
    let errors = for_errors(request.headers(), &[], server.cbor);
    let wanted = match wanted(request.headers()) {
        Ok(None) => return next.run(request).await,
        Ok(Some(wanted)) => wanted,
        Err(status) => return status_response(errors, &status),
    };
    let caller = request.extensions().get::<UserInfo>().cloned().unwrap_or_else(UserInfo::anonymous);
    let target = request.extensions().get::<RequestInfo>().cloned().unwrap_or_default();
    // Either the right to act as them for this very request, or the old one to act as them at all.
    let constrained = match constrained_questions(&wanted, &target) {
        Some(asked) => Some(allowed(&server, &caller, asked).await),
        None => None,
    };
    let as_node = matches!(constrained, Some(Ok(()))) && wanted.name.starts_with(NODE);
    if !matches!(constrained, Some(Ok(())))
        && let Err(refused) = allowed(&server, &caller, questions(&wanted)).await
    {
        let first = constrained.and_then(Result::err).unwrap_or(refused);
        return status_response(errors, &first);
    }
    tracing::debug!(caller = caller.name, user = wanted.name, "impersonation");
    request.extensions_mut().insert(complete(wanted, as_node));
    let headers = request.headers_mut();
    let names: Vec<_> = headers.keys().filter(|n| n.as_str().starts_with("impersonate-")).cloned().collect();
    names.iter().for_each(|name| drop(headers.remove(name)));
    next.run(request).await
}

/// Whether the caller may do all of this; else the answer to the first thing it may not.
async fn allowed(server: &Server, caller: &UserInfo, asked: Vec<RequestInfo>) -> Result<(), Status> {
    for info in asked {
        let decision = server.authorizer.authorize(&Attributes { user: caller, info: &info }).await;
        if let Decision::Deny(reason) | Decision::NoOpinion(reason) = decision {
            return Err(forbidden(caller, &info, &reason));
        }
    }
    Ok(())
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
        return Err(Status::bad_request(format!("requested {} without impersonating a user name", printed(&user))));
    }
    Ok(Some(user))
}

/// The user as upstream's message prints it.
fn printed(user: &UserInfo) -> String {
    let list = |items: &[String]| items.iter().map(|i| format!("{i:?}")).collect::<Vec<_>>().join(", ");
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { format!("[]string{{{}}}", list(&user.groups)) };
    let extra = user.extra.iter().map(|(key, values)| format!("{key:?}:[]string{{{}}}", list(values))).collect::<Vec<_>>().join(", ");
    let extra = if extra.is_empty() { "map[string][]string(nil)".to_owned() } else { format!("map[string][]string{{{extra}}}") };
    format!("&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:{extra}}}", user.name, user.uid)
}

/// A question about something to be impersonated.
fn ask(verb: &'static str, (group, resource, subresource): (&str, &str, &str), namespace: &str, name: &str) -> RequestInfo {
    RequestInfo {
        is_resource: true,
        verb,
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..RequestInfo::default()
    }
}

const AUTHENTICATION: &str = "authentication.k8s.io";

/// What must be allowed to act as the user in this one request: the request itself, and each part of the user. `None` for
/// service accounts and nodes with groups, uid or extra of the caller's choice: those rights are about a name only.
fn constrained_questions(user: &UserInfo, target: &RequestInfo) -> Option<Vec<RequestInfo>> {
    let account = user.name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'));
    let node = user.name.strip_prefix(NODE);
    let (mode, who) = match (account, node) {
        (Some((namespace, name)), _) => {
            ("serviceaccount", ask(verbs::SERVICE_ACCOUNT, (AUTHENTICATION, "serviceaccounts", ""), namespace, name))
        }
        (_, Some(name)) => ("arbitrary-node", ask(verbs::ARBITRARY_NODE, (AUTHENTICATION, "nodes", ""), "", name)),
        _ => ("user-info", ask(verbs::USER_INFO, (AUTHENTICATION, "users", ""), "", &user.name)),
    };
    let plain = user.groups.is_empty() && user.uid.is_empty() && user.extra.is_empty();
    if mode != "user-info" && !plain {
        return None;
    }
    let mut asked = vec![RequestInfo { verb: verbs::on(mode, target.verb), ..target.clone() }, who];
    if mode == "user-info" {
        asked.extend(user.groups.iter().map(|g| ask(verbs::USER_INFO, (AUTHENTICATION, "groups", ""), "", g)));
        for (key, values) in &user.extra {
            asked.extend(values.iter().map(|v| ask(verbs::USER_INFO, (AUTHENTICATION, "userextras", key), "", v)));
        }
        if !user.uid.is_empty() {
            asked.push(ask(verbs::USER_INFO, (AUTHENTICATION, "uids", ""), "", &user.uid));
        }
    }
    Some(asked)
}

/// The verbs of constrained impersonation.
mod verbs {
    pub(super) const USER_INFO: &str = "impersonate:user-info";
    pub(super) const SERVICE_ACCOUNT: &str = "impersonate:serviceaccount";
    pub(super) const ARBITRARY_NODE: &str = "impersonate:arbitrary-node";

    /// The verb of a request as one on behalf of somebody; other verbs belong to paths that no rule names.
    macro_rules! on {
        ($mode:literal, $verb:expr) => {
            match $verb {
                "get" => concat!("impersonate-on:", $mode, ":get"),
                "list" => concat!("impersonate-on:", $mode, ":list"),
                "watch" => concat!("impersonate-on:", $mode, ":watch"),
                "create" => concat!("impersonate-on:", $mode, ":create"),
                "update" => concat!("impersonate-on:", $mode, ":update"),
                "patch" => concat!("impersonate-on:", $mode, ":patch"),
                "delete" => concat!("impersonate-on:", $mode, ":delete"),
                "deletecollection" => concat!("impersonate-on:", $mode, ":deletecollection"),
                _ => concat!("impersonate-on:", $mode, ":other"),
            }
        };
    }

    /// The verb that allows a request with `verb` on behalf of somebody of that kind.
    pub(super) fn on(mode: &str, verb: &str) -> &'static str {
        match mode {
            "serviceaccount" => on!("serviceaccount", verb),
            "arbitrary-node" => on!("arbitrary-node", verb),
            _ => on!("user-info", verb),
        }
    }
}

/// What must be allowed to act as the user in any request.
fn questions(user: &UserInfo) -> Vec<RequestInfo> {
    let ask = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        ask("impersonate", (group, resource, subresource), namespace, name)
    };
    let mut asked = vec![match user.name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':')) {
        Some((namespace, name)) => ask("", "serviceaccounts", "", namespace, name),
        None => ask("", "users", "", "", &user.name),
    }];
    asked.extend(user.groups.iter().map(|g| ask("", "groups", "", "", g)));
    for (key, values) in &user.extra {
        asked.extend(values.iter().map(|v| ask(AUTHENTICATION, "userextras", key, "", v)));
    }
    if !user.uid.is_empty() {
        asked.push(ask(AUTHENTICATION, "uids", "", "", &user.uid));
    }
    asked
}

/// Adds the groups everybody has; nodes impersonated as such get theirs.
fn complete(mut user: UserInfo, as_node: bool) -> UserInfo {
    if as_node {
        user.groups = vec![NODES.into()];
    }
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
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn a_user_with_groups_needs_a_right_for_each() {
        let user = wanted(&headers(&[(USER, "jane"), (GROUP, "dev"), (GROUP, "ops")])).unwrap().unwrap();
        let asked: Vec<_> = questions(&user).into_iter().map(|i| format!("{}/{}", i.resource, i.name)).collect();
        assert_eq!(asked, ["users/jane", "groups/dev", "groups/ops"]);
        assert!(complete(user, false).in_group("system:authenticated"));
    }

    #[test]
    fn a_service_account_gets_its_groups() {
        let user = wanted(&headers(&[(USER, "system:serviceaccount:a:b")])).unwrap().unwrap();
        assert_eq!((&*questions(&user)[0].resource, &*questions(&user)[0].namespace), ("serviceaccounts", "a"));
        assert!(complete(user, false).in_group("system:serviceaccounts:a"));
    }

    #[test]
    fn acting_as_a_node_for_one_request_needs_a_right_for_that_request() {
        let user = wanted(&headers(&[(USER, "system:node:n1")])).unwrap().unwrap();
        let target = RequestInfo::parse(&http::Method::GET, "/api/v1/namespaces/a/configmaps", "");
        let asked: Vec<_> =
            constrained_questions(&user, &target).unwrap().into_iter().map(|i| format!("{} {}", i.verb, i.resource)).collect();
        assert_eq!(asked, ["impersonate-on:arbitrary-node:list configmaps", "impersonate:arbitrary-node nodes"]);
        assert!(complete(user, true).in_group(NODES));
    }

    #[test]
    fn the_right_to_act_as_a_node_or_account_covers_no_further_groups() {
        let target = RequestInfo::parse(&http::Method::GET, "/api/v1/pods", "");
        for name in ["system:node:n1", "system:serviceaccount:a:b"] {
            for more in [(GROUP, "system:masters"), (UID, "1"), ("impersonate-extra-scope", "x")] {
                let user = wanted(&headers(&[(USER, name), more])).unwrap().unwrap();
                assert!(constrained_questions(&user, &target).is_none(), "{name} {more:?}");
            }
        }
    }

    #[test]
    fn groups_without_a_user_are_refused() {
        assert!(wanted(&headers(&[(GROUP, "dev")])).is_err());
        assert_eq!(wanted(&headers(&[])).unwrap(), None);
    }
}

//! The words of a 403.

use apimachinery::{gvk::GroupResource, status::Status};

use crate::request::{RequestInfo, UserInfo};

/// What a refused request is answered.
pub(super) fn forbidden(user: &UserInfo, info: &RequestInfo, reason: &str) -> Status {
    let mut text =
        if info.is_resource { resource(user, info) } else { format!("User {:?} cannot {} path {:?}", user.name, info.verb, info.path) };
    if !reason.is_empty() {
        text = format!("{text}: {reason}");
    }
    Status::forbidden(&GroupResource::new(&info.group, &info.resource), &info.name, text)
}

fn resource(user: &UserInfo, info: &RequestInfo) -> String {
    let slash = if info.subresource.is_empty() { "" } else { "/" };
    let place =
        if info.namespace.is_empty() { "at the cluster scope".to_owned() } else { format!("in the namespace {:?}", info.namespace) };
    format!(
        "User {:?} cannot {} resource \"{}{slash}{}\" in API group {:?} {place}",
        user.name, info.verb, info.resource, info.subresource, info.group
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn a_refusal_names_user_verb_resource_and_place() {
        let info = RequestInfo::parse(&Method::GET, "/api/v1/namespaces/a/pods/p/log", "");
        let status = forbidden(&UserInfo::new("jane", &[]), &info, "");
        assert_eq!(
            status.message,
            "pods \"p\" is forbidden: User \"jane\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"a\""
        );
        let info = RequestInfo::parse(&Method::GET, "/metrics", "");
        assert_eq!(
            forbidden(&UserInfo::anonymous(), &info, "").message,
            "forbidden: User \"system:anonymous\" cannot get path \"/metrics\""
        );
    }
}

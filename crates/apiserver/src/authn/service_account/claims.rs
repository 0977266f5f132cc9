//! What a service-account token says, and whether it holds at a given time.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::CREDENTIAL_ID;
use crate::request::UserInfo;

/// Clocks may differ this much; go-jose's default.
const LEEWAY: i64 = 60;

/// The claims of a token bound to a service account and possibly a pod, node or secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claims {
    pub(super) iss: String,
    aud: Audience,
    exp: Option<i64>,
    nbf: Option<i64>,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) bound: Bound,
}

/// One audience or several, as JWT allows.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Default for Audience {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

/// What the token is bound to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Bound {
    pub(super) namespace: String,
    pub(super) serviceaccount: Reference,
    pub(super) pod: Option<Reference>,
    pub(super) secret: Option<Reference>,
    pub(super) node: Option<Reference>,
}

/// An object by name, and by UID so that a successor of the same name does not count.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) uid: String,
}

impl Claims {
    /// The audiences asked for that the token is good for. Errors: text, if there are none.
    pub(super) fn audiences(&self, wanted: &[String]) -> Result<Vec<String>, String> {
        let claimed = match &self.aud {
            Audience::One(one) => std::slice::from_ref(one),
            Audience::Many(many) => many,
        };
        let common: Vec<String> = wanted.iter().filter(|audience| claimed.contains(audience)).cloned().collect();
        if common.is_empty() {
            return Err(format!("token audiences {} is invalid for the target audiences {}", quoted(claimed), quoted(wanted)));
        }
        Ok(common)
    }

    /// Whether the token is valid at `now`, in seconds. Errors: text.
    pub(super) fn check_time(&self, now: i64) -> Result<(), String> {
        if self.nbf.is_some_and(|from| now + LEEWAY < from) {
            return Err("service account token is not valid yet".to_owned());
        }
        if self.exp.is_some_and(|until| now - LEEWAY > until) {
            return Err("service account token has expired".to_owned());
        }
        Ok(())
    }

    /// The user the token stands for.
    pub(super) fn user(&self) -> UserInfo {
        let (namespace, account) = (&self.bound.namespace, &self.bound.serviceaccount);
        let mut extra = BTreeMap::new();
        let mut add = |key: &str, value: String| drop(extra.insert(key.to_owned(), vec![value]));
        if !self.jti.is_empty() {
            add(CREDENTIAL_ID, format!("JTI={}", self.jti));
        }
        for (kind, reference) in [("pod", &self.bound.pod), ("node", &self.bound.node)] {
            if let Some(reference) = reference {
                add(&format!("authentication.kubernetes.io/{kind}-name"), reference.name.clone());
                if !reference.uid.is_empty() {
                    add(&format!("authentication.kubernetes.io/{kind}-uid"), reference.uid.clone());
                }
            }
        }
        UserInfo {
            name: format!("system:serviceaccount:{namespace}:{}", account.name),
            uid: account.uid.clone(),
            groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
            extra,
        }
    }
}

/// A list as Go's `%q` prints it.
fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|entry| format!("{entry:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims() -> Claims {
        serde_json::from_value(json!({
            "iss": "me", "aud": ["a", "b"], "exp": 1000, "nbf": 500, "jti": "j",
            "kubernetes.io": {"namespace": "n", "serviceaccount": {"name": "s", "uid": "u"}, "pod": {"name": "p", "uid": "pu"}},
        }))
        .unwrap()
    }

    #[test]
    fn a_token_is_good_between_its_times_with_a_minute_to_spare() {
        for (now, good) in [(439, false), (440, true), (1060, true), (1061, false)] {
            assert_eq!(claims().check_time(now).is_ok(), good, "{now}");
        }
    }

    #[test]
    fn a_token_is_good_for_the_audiences_it_names() {
        let wanted = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
        assert_eq!(claims().audiences(&wanted(&["b", "c"])), Ok(wanted(&["b"])));
        let text = r#"token audiences ["a" "b"] is invalid for the target audiences ["c"]"#;
        assert_eq!(claims().audiences(&wanted(&["c"])), Err(text.to_owned()));
    }

    #[test]
    fn the_user_is_the_account_and_the_extra_names_what_it_is_bound_to() {
        let user = claims().user();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:n:s", "u"));
        assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:n"]);
        assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
        assert_eq!(user.extra[CREDENTIAL_ID], ["JTI=j"]);
    }
}

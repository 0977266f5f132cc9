//! Token reviews, and who the caller is.

use std::sync::Arc;

use apimachinery::{
    Object,
    field::{Error, Path},
    gvk::GroupKind,
    status::Status,
    time,
};
use async_trait::async_trait;
use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    authn,
    loopback::Loopback,
    registry::{Answer, Call, Connect, TokenReviewer, check::At},
    request::{RequestContext, UserInfo},
};

/// Serves `tokenreviews`.
pub(crate) struct Tokens(pub(crate) Option<Arc<dyn TokenReviewer>>);

#[async_trait]
impl Connect for Tokens {
    async fn call(&self, _ctx: &RequestContext, _api: &Loopback, call: Call) -> Result<Answer, Status> {
        let mut review = call.body.unwrap_or_default();
        let spec = At::field(&review, "spec");
        let token = spec.get("token").str().to_owned();
        let audiences: Vec<String> = spec.get("audiences").strs().into_iter().map(str::to_owned).collect();
        if token.is_empty() {
            let kind = GroupKind::new("authentication.k8s.io", "TokenReview");
            let missing = Error::required(&Path::new("spec").child("token"), "token is required for TokenReview in authentication");
            return Err(Status::invalid(&kind, review.name(), vec![missing]));
        }
        let outcome = match &self.0 {
            Some(reviewer) => reviewer.review(&token, &audiences).await,
            None => Err(authn::Error::Bad("no token authenticator is configured".to_owned())),
        };
        let outcome = match outcome {
            Err(authn::Error::Undecided(status)) => return Err(*status),
            outcome => outcome.map_err(|error| error.to_string()),
        };
        review.0.insert("status".into(), status(outcome));
        Ok(Answer::Object(StatusCode::CREATED, review))
    }
}

fn status(outcome: Result<(UserInfo, Vec<String>), String>) -> Value {
    match outcome {
        Ok((user, audiences)) => {
            let mut status = json!({"authenticated": true, "user": user_info(&user)});
            if !audiences.is_empty() {
                status["audiences"] = json!(audiences);
            }
            status
        }
        Err(error) => json!({"error": error, "user": {}}),
    }
}

/// A user as reviews show it; empty fields are left out.
fn user_info(user: &UserInfo) -> Value {
    let mut shown = json!({});
    for (key, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            shown[key] = json!(text);
        }
    }
    if !user.groups.is_empty() {
        shown["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        shown["extra"] = json!(user.extra);
    }
    shown
}

/// Serves `selfsubjectreviews`.
pub(crate) struct WhoAmI;

#[async_trait]
impl Connect for WhoAmI {
    async fn call(&self, ctx: &RequestContext, _api: &Loopback, _call: Call) -> Result<Answer, Status> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
            "metadata": {"creationTimestamp": time::format_rfc3339_seconds(ctx.now)},
            "status": {"userInfo": user_info(&ctx.user)}});
        Ok(Answer::Object(StatusCode::CREATED, Object::from_value(review).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_token_says_why_and_a_good_one_whose_it_is() {
        assert_eq!(status(Err("bad".into())), json!({"error": "bad", "user": {}}));
        let user = UserInfo::new("alice", &["crew"]);
        assert_eq!(
            status(Ok((user, vec!["api".into()]))),
            json!({"authenticated": true, "audiences": ["api"], "user": {"username": "alice", "groups": ["crew"]}})
        );
    }
}

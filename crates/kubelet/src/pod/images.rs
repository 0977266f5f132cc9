//! Making sure a container's image is on the node, by its pull policy and with back-off.

use std::collections::HashMap;

use base64::Engine;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::{backoff::Backoff, create, facts, start::StartError};
use crate::{
    cri::{describe, v1},
    node::Node,
    text::{duration, quote},
};

/// Pulls of one node: one at a time by default, as upstream's `serializeImagePulls`.
pub(crate) struct Images {
    turn: Semaphore,
    failed: Mutex<Failed>,
}

/// Back-off of failed pulls and what they failed with, by pod and image.
#[derive(Default)]
struct Failed {
    backoff: Backoff,
    errors: HashMap<String, String>,
}

/// An image that is present.
#[derive(Debug, Clone, Default)]
pub(crate) struct Present {
    /// What the container is made from.
    pub(crate) reference: String,
    /// What the user wrote.
    pub(crate) named: String,
    pub(crate) user: Option<i64>,
}

impl Images {
    /// `parallel`: how many pulls may run at once.
    pub(crate) fn new(parallel: usize) -> Self {
        Self { turn: Semaphore::new(parallel.max(1)), failed: Mutex::default() }
    }

    /// The image of `container`, pulled if its policy says so.
    pub(crate) async fn ensure(&self, node: &Node, pod: &Pod, container: &Container) -> Result<Present, StartError> {
        let named = container.image.clone().unwrap_or_default();
        let spec = spec(&named);
        let tell = |kind: &str, reason: &str, text: &str| node.events.pod(pod, Some(&container.name), kind, reason, text);
        let found = match node.cri.image_status(v1::ImageStatusRequest { image: Some(spec.clone()), verbose: false }).await {
            Ok(answer) => answer.image,
            Err(error) => {
                let text = format!("Failed to inspect image {}: {}", quote(&named), describe(&error));
                tell("Warning", "InspectFailed", &text);
                return Err(StartError::new("ImageInspectError", text));
            }
        };
        let policy = container.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
        match found {
            Some(image) if policy != "Always" => {
                let text = format!("Container image {} already present on machine and can be accessed by the pod", quote(&named));
                tell("Normal", "Pulled", &text);
                Ok(present(&named, image))
            }
            None if policy == "Never" => {
                let text = format!("Container image {} is not present with pull policy of Never", quote(&named));
                tell("Warning", "ErrImageNeverPull", &text);
                Err(StartError::new("ErrImageNeverPull", text))
            }
            _ => self.pull(node, pod, container, spec, &named).await,
        }
    }

    async fn pull(&self, node: &Node, pod: &Pod, container: &Container, spec: v1::ImageSpec, named: &str) -> Result<Present, StartError> {
        let tell = |kind: &str, reason: &str, text: &str| node.events.pod(pod, Some(&container.name), kind, reason, text);
        let key = format!("{}_{named}", facts::uid(pod));
        if let Some(last) = self.blocked(&key, node.now()) {
            let text = format!("Back-off pulling image {}", quote(named));
            tell("Normal", "BackOff", &text);
            return Err(StartError::new("ImagePullBackOff", format!("{text}: ErrImagePull: {last}")));
        }
        tell("Normal", "Pulling", &format!("Pulling image {}", quote(named)));
        let asked = node.now();
        let Ok(turn) = self.turn.acquire().await else { return Err(StartError::new("ErrImagePull", "the kubelet stops")) };
        let begun = node.now();
        let pulled = pull_with(node, pod, &spec, &pull_secrets(node, pod, named).await).await;
        drop(turn);
        let ended = node.now();
        match pulled {
            Ok(image) => {
                let text = format!(
                    "Successfully pulled image {} in {} ({} including waiting). Image size: {} bytes.",
                    quote(named),
                    rounded(begun, ended),
                    rounded(asked, ended),
                    image.size
                );
                tell("Normal", "Pulled", &text);
                self.failed.lock().errors.remove(&key);
                Ok(present(named, image))
            }
            Err(error) => {
                let text = describe(&error);
                tell("Warning", "Failed", &format!("Failed to pull image {}: {text}", quote(named)));
                let mut failed = self.failed.lock();
                failed.backoff.next(&key, ended, ended);
                failed.errors.insert(key, text.clone());
                Err(StartError::new("ErrImagePull", text))
            }
        }
    }

    /// What the last pull failed with, while its back-off runs.
    fn blocked(&self, key: &str, now: Timestamp) -> Option<String> {
        let failed = self.failed.lock();
        failed.backoff.blocked_since_update(key, now).then(|| failed.errors.get(key).cloned().unwrap_or_default())
    }

    /// Forgets the pulls of a pod that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        let mut failed = self.failed.lock();
        failed.errors.retain(|key, _| !key.starts_with(uid));
        failed.backoff.forget(uid);
    }
}

fn rounded(from: Timestamp, to: Timestamp) -> String {
    duration(SignedDuration::from_millis(i64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)))
}

fn present(named: &str, image: v1::Image) -> Present {
    Present { named: named.to_owned(), user: image.uid.map(|uid| uid.value), reference: image.id }
}

/// CRI's name of an image; without tag or digest it is the latest.
fn spec(named: &str) -> v1::ImageSpec {
    let last = named.rsplit('/').next().unwrap_or(named);
    let image = if last.contains([':', '@']) { named.to_owned() } else { format!("{named}:latest") };
    v1::ImageSpec { image, user_specified_image: named.to_owned(), ..Default::default() }
}

/// Tries each credential in turn, or none; the last error counts.
async fn pull_with(node: &Node, pod: &Pod, spec: &v1::ImageSpec, auths: &[v1::AuthConfig]) -> Result<v1::Image, tonic::Status> {
    let sandbox = create::sandbox_config(node, pod, 0);
    let mut last = tonic::Status::unknown("no credential was tried");
    let tries: Vec<Option<v1::AuthConfig>> = if auths.is_empty() { vec![None] } else { auths.iter().cloned().map(Some).collect() };
    for auth in tries {
        let request = v1::PullImageRequest { image: Some(spec.clone()), auth, sandbox_config: Some(sandbox.clone()) };
        match node.cri.pull_image(request).await {
            Ok(answer) => {
                let status = v1::ImageStatusRequest { image: Some(spec.clone()), verbose: false };
                let image = node.cri.image_status(status).await?.image;
                return Ok(image.unwrap_or(v1::Image { id: answer.image_ref, ..Default::default() }));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[derive(Deserialize)]
struct DockerConfig {
    auths: std::collections::BTreeMap<String, DockerAuth>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DockerAuth {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
}

/// Credentials for the image's registry from the pod's pull secrets; a secret that cannot be read is told and skipped.
async fn pull_secrets(node: &Node, pod: &Pod, named: &str) -> Vec<v1::AuthConfig> {
    let mut found = vec![];
    let refs = pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
    for name in refs.map(|r| r.name.clone()).filter(|name| !name.is_empty()) {
        let secret = match node.objects.secret(facts::namespace(pod), &name).await {
            Ok(secret) => secret,
            Err(error) => {
                let text = format!("Unable to retrieve some image pull secrets ({name}); attempting to pull the image may not succeed.");
                tracing::debug!(%error, "read pull secret");
                node.events.pod(pod, None, "Warning", "FailedToRetrieveImagePullSecret", &text);
                continue;
            }
        };
        let data = secret.data.as_ref().and_then(|d| d.get(".dockerconfigjson"));
        let config = data.and_then(|bytes| serde_json::from_slice::<DockerConfig>(&bytes.0).ok());
        found.extend(
            config.into_iter().flat_map(|c| c.auths).filter(|(host, _)| serves(host, named)).map(|(host, auth)| credential(host, auth)),
        );
    }
    found
}

/// Whether a registry entry of a docker config is about the image.
fn serves(host: &str, named: &str) -> bool {
    let host = host.trim_start_matches("https://").trim_start_matches("http://");
    let host = host.split("/v1").next().and_then(|h| h.split("/v2").next()).unwrap_or(host).trim_end_matches('/');
    let first = named.split('/').next().unwrap_or_default();
    let registry = named.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    if registry { named.starts_with(host) } else { host.ends_with("docker.io") }
}

fn credential(host: String, auth: DockerAuth) -> v1::AuthConfig {
    let decoded = base64::engine::general_purpose::STANDARD.decode(&auth.auth).ok();
    let pair = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let (username, password) = pair
        .as_deref()
        .and_then(|pair| pair.split_once(':'))
        .map_or((auth.username, auth.password), |(user, password)| (user.to_owned(), password.to_owned()));
    v1::AuthConfig { username, password, server_address: host, identity_token: auth.identitytoken, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_tag_is_the_latest() {
        assert_eq!(spec("busybox").image, "busybox:latest");
        assert_eq!(spec("localhost:5000/busybox").image, "localhost:5000/busybox:latest");
        assert_eq!(spec("a/b:1").image, "a/b:1");
        assert_eq!(spec("a/b@sha256:00").image, "a/b@sha256:00");
    }

    #[test]
    fn credentials_go_to_their_registry_only() {
        assert!(serves("https://index.docker.io/v1/", "busybox"));
        assert!(serves("registry.example.com", "registry.example.com/web:1"));
        assert!(!serves("registry.example.com", "other.example.com/web:1"));
        assert!(!serves("registry.example.com", "busybox"));
    }
}

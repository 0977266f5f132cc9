//! A container's environment: services, `envFrom`, `env` in this order, with `$(NAME)` expanded. Pure: what the API
//! server holds comes in as [`Sources`].

use std::collections::{BTreeMap, HashMap};

use indexmap::IndexMap;
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, EnvVarSource, Pod, Secret};

use super::{facts, fields};

/// Config maps and secrets the container refers to; absent ones are `None`.
#[derive(Default)]
pub(crate) struct Sources {
    pub(crate) config_maps: HashMap<String, Option<ConfigMap>>,
    pub(crate) secrets: HashMap<String, Option<Secret>>,
    /// Variables for the services of the pod's namespace.
    pub(crate) services: BTreeMap<String, String>,
}

/// Names of config maps and secrets a container's environment needs.
pub(crate) fn needs(container: &Container) -> (Vec<String>, Vec<String>) {
    let (mut maps, mut secrets) = (vec![], vec![]);
    for from in container.env_from.iter().flatten() {
        maps.extend(from.config_map_ref.as_ref().map(|r| r.name.clone()));
        secrets.extend(from.secret_ref.as_ref().map(|r| r.name.clone()));
    }
    for source in container.env.iter().flatten().filter_map(|e| e.value_from.as_ref()) {
        maps.extend(source.config_map_key_ref.as_ref().map(|r| r.name.clone()));
        secrets.extend(source.secret_key_ref.as_ref().map(|r| r.name.clone()));
    }
    (maps, secrets)
}

/// The environment, or why the container cannot be configured, in upstream's words.
pub(crate) fn environment(
    pod: &Pod,
    container: &Container,
    sources: &Sources,
    node: &fields::NodeFacts,
) -> Result<IndexMap<String, String>, String> {
    let mut result: IndexMap<String, String> = IndexMap::new();
    let mut services = sources.services.clone();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &from.config_map_ref {
            let found = sources.config_maps.get(&reference.name).and_then(Option::as_ref);
            let Some(map) = present(found, "configmap", &reference.name, reference.optional)? else { continue };
            result.extend(map.data.iter().flatten().map(|(k, v)| (format!("{prefix}{k}"), v.clone())));
        }
        if let Some(reference) = &from.secret_ref {
            let found = sources.secrets.get(&reference.name).and_then(Option::as_ref);
            let Some(secret) = present(found, "secret", &reference.name, reference.optional)? else { continue };
            result.extend(secret.data.iter().flatten().map(|(k, v)| (format!("{prefix}{k}"), text(&v.0))));
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) if !value.is_empty() => Some(expand(value, |name| result.get(name).or_else(|| services.get(name)).cloned())),
            (_, Some(from)) => value_from(pod, container, variable, from, sources, node)?,
            _ => Some(String::new()),
        };
        if let Some(value) = value {
            services.remove(&variable.name);
            result.insert(variable.name.clone(), value);
        }
    }
    for (name, value) in services {
        result.entry(name).or_insert(value);
    }
    Ok(result)
}

/// `Ok(None)` for an absent object that may be absent.
fn present<'a, T>(found: Option<&'a T>, kind: &str, name: &str, optional: Option<bool>) -> Result<Option<&'a T>, String> {
    match found {
        None if optional != Some(true) => Err(format!("{kind} {name:?} not found")),
        found => Ok(found),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn value_from(
    pod: &Pod,
    container: &Container,
    variable: &EnvVar,
    from: &EnvVarSource,
    sources: &Sources,
    node: &fields::NodeFacts,
) -> Result<Option<String>, String> {
    let namespace = facts::namespace(pod);
    if let Some(field) = &from.field_ref {
        return fields::field(pod, &field.field_path, node).map(Some);
    }
    if let Some(resource) = &from.resource_field_ref {
        return fields::resource(pod, Some(container), resource, node).map(Some);
    }
    if let Some(key) = &from.config_map_key_ref {
        let found = sources.config_maps.get(&key.name).and_then(Option::as_ref);
        let Some(map) = present(found, "configmap", &key.name, key.optional)? else { return Ok(None) };
        return match map.data.as_ref().and_then(|d| d.get(&key.key)) {
            None if key.optional != Some(true) => Err(format!("couldn't find key {} in ConfigMap {namespace}/{}", key.key, key.name)),
            value => Ok(value.cloned()),
        };
    }
    if let Some(key) = &from.secret_key_ref {
        let found = sources.secrets.get(&key.name).and_then(Option::as_ref);
        let Some(secret) = present(found, "secret", &key.name, key.optional)? else { return Ok(None) };
        return match secret.data.as_ref().and_then(|d| d.get(&key.key)) {
            None if key.optional != Some(true) => Err(format!("couldn't find key {} in Secret {namespace}/{}", key.key, key.name)),
            value => Ok(value.map(|bytes| text(&bytes.0))),
        };
    }
    Err(format!("environment variable {:?} has a source this kubelet does not know", variable.name))
}

/// Replaces `$(NAME)` by its value; `$$` is one `$`; an unknown name stays as it is written.
pub(crate) fn expand(input: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut output = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.find('$') {
        output.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            output.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
            output.push_str(&lookup(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            output.push('$');
        }
    }
    output.push_str(rest);
    output
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMapEnvSource, EnvFromSource};

    use super::*;

    fn variable(name: &str, value: &str) -> EnvVar {
        EnvVar { name: name.into(), value: Some(value.into()), ..Default::default() }
    }

    #[test]
    fn expands_known_names_and_keeps_the_rest() {
        let lookup = |name: &str| (name == "A").then(|| "1".to_owned());
        let cases = [("$(A)", "1"), ("$(B)", "$(B)"), ("$$(A)", "$(A)"), ("a$", "a$"), ("$x", "$x"), ("$(A", "$(A")];
        for (input, output) in cases {
            assert_eq!(expand(input, lookup), output, "{input}");
        }
    }

    #[test]
    fn later_variables_see_earlier_ones_and_override_services() {
        let container = Container {
            env: Some(vec![variable("A", "1"), variable("B", "$(A)-$(WEB_SERVICE_HOST)"), variable("WEB_SERVICE_PORT", "x")]),
            ..Default::default()
        };
        let services =
            BTreeMap::from([("WEB_SERVICE_HOST".to_owned(), "10.96.0.9".to_owned()), ("WEB_SERVICE_PORT".to_owned(), "80".to_owned())]);
        let sources = Sources { services, ..Default::default() };
        let env = environment(&Pod::default(), &container, &sources, &fields::NodeFacts::default()).unwrap();
        assert_eq!(env["B"], "1-10.96.0.9");
        assert_eq!(env["WEB_SERVICE_PORT"], "x");
        assert_eq!(env["WEB_SERVICE_HOST"], "10.96.0.9");
    }

    #[test]
    fn a_missing_config_map_is_named() {
        let from =
            EnvFromSource { config_map_ref: Some(ConfigMapEnvSource { name: "settings".into(), optional: None }), ..Default::default() };
        let container = Container { env_from: Some(vec![from]), ..Default::default() };
        let error = environment(&Pod::default(), &container, &Sources::default(), &fields::NodeFacts::default()).unwrap_err();
        assert_eq!(error, "configmap \"settings\" not found");
    }
}

//! Parses method, path and query into what RBAC, audit, metrics and the router talk about (upstream's `RequestInfo`).

use apimachinery::selector::field;
use http::Method;

/// What a request addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// Whether the path names an API resource (else `/healthz`, `/version`, discovery …).
    pub(crate) is_resource: bool,
    /// The path without the query.
    pub(crate) path: String,
    /// get, list, watch, create, update, patch, delete, deletecollection; for other paths the lower-case method.
    pub(crate) verb: &'static str,
    /// `api` or `apis`.
    pub(crate) prefix: &'static str,
    /// API group, empty for the core group.
    pub(crate) group: String,
    /// API version.
    pub(crate) version: String,
    /// Namespace, empty for cluster scope. For `namespaces/NAME` it is NAME, as upstream has it.
    pub(crate) namespace: String,
    /// Plural resource name.
    pub(crate) resource: String,
    /// Subresource, empty if none.
    pub(crate) subresource: String,
    /// Object name, empty for collections. For list and watch: the name in `fieldSelector=metadata.name=…`.
    pub(crate) name: String,
    /// Whether the path addresses a collection, even where a field selector gave a name.
    pub(crate) is_collection: bool,
    /// What follows the subresource (`proxy` paths), from its slash on and as it came: escapes and a last slash belong to
    /// whoever is behind the proxy.
    pub(crate) rest: String,
    /// The query's label selector, for authorization.
    pub(crate) label_selector: String,
    /// The query's field selector, for authorization.
    pub(crate) field_selector: String,
}

/// Subresources of namespaces; any other segment after `namespaces/NAME` is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Parses a request line. Never fails: what is no resource path is a non-resource request.
    pub(crate) fn parse(method: &Method, path: &str, query: &str) -> Self {
        let mut info = Self { path: path.to_owned(), verb: lower(method), ..Self::default() };
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let Some(rest) = info.take_prefix(&parts) else { return info };
        info.is_resource = true;
        info.verb = resource_verb(method);
        let following = info.take_resource(rest);
        info.rest = after_segments(path, parts.len() - following);
        info.refine_verb(query);
        info
    }

    /// Whether the request lives as long as its client wants: no deadline, no place in the queue.
    pub(crate) fn is_long_running(&self) -> bool {
        self.is_resource && (self.verb == "watch" || ["attach", "exec", "proxy", "log", "portforward"].contains(&self.subresource.as_str()))
    }

    fn take_prefix<'a>(&mut self, parts: &'a [String]) -> Option<&'a [String]> {
        match parts.first().map(String::as_str) {
            Some("api") if parts.len() >= 3 => {
                self.prefix = "api";
                self.version = parts[1].clone();
                Some(&parts[2..])
            }
            Some("apis") if parts.len() >= 4 => {
                self.prefix = "apis";
                self.group = parts[1].clone();
                self.version = parts[2].clone();
                Some(&parts[3..])
            }
            _ => None,
        }
    }

    /// Returns how many parts follow the subresource.
    fn take_resource(&mut self, parts: &[String]) -> usize {
        let mut parts = parts;
        if parts[0] == "watch" && parts.len() > 1 {
            self.verb = "watch";
            parts = &parts[1..];
        }
        if parts[0] == "namespaces" && parts.len() > 1 {
            self.namespace = parts[1].clone();
            if parts.len() > 2 && !NAMESPACE_SUBRESOURCES.contains(&parts[2].as_str()) {
                parts = &parts[2..];
            }
        }
        self.resource = parts[0].clone();
        self.name = parts.get(1).cloned().unwrap_or_default();
        self.is_collection = self.name.is_empty();
        self.subresource = parts.get(2).cloned().unwrap_or_default();
        parts.len().saturating_sub(3)
    }

    fn refine_verb(&mut self, query: &str) {
        let pairs = parse_query(query);
        let get = |key: &str| pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        self.label_selector = get("labelSelector").unwrap_or_default().to_owned();
        self.field_selector = get("fieldSelector").unwrap_or_default().to_owned();
        if self.name.is_empty() && self.verb == "get" {
            self.verb = if get("watch").is_some_and(is_true) { "watch" } else { "list" };
        }
        if self.name.is_empty() && matches!(self.verb, "list" | "watch" | "delete") {
            self.name = name_in_field_selector(&self.field_selector).unwrap_or_default();
            if self.verb == "delete" {
                self.verb = "deletecollection";
            }
        }
    }
}

/// Splits a query into decoded pairs, in order.
pub(crate) fn parse_query(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|p| !p.is_empty())
        .map(|pair| {
            let (k, v) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(k.replace('+', " ")), decode(v.replace('+', " ")))
        })
        .collect()
}

/// How a query's boolean is read: everything but `false` and `0` is true, as upstream converts it.
pub(crate) fn is_true(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

fn decode(s: impl AsRef<str>) -> String {
    percent_encoding::percent_decode_str(s.as_ref()).decode_utf8_lossy().into_owned()
}

/// What comes after the first `count` segments of a path.
fn after_segments(path: &str, count: usize) -> String {
    path.trim_start_matches('/').splitn(count + 1, '/').nth(count).map(|rest| format!("/{rest}")).unwrap_or_default()
}

fn name_in_field_selector(selector: &str) -> Option<String> {
    // The parser that selects, so that what is authorized is what will be read.
    let selector = field::Selector::parse(selector).ok()?;
    let name = selector.exact_match("metadata.name")?;
    let segment = !matches!(name, "" | "." | "..") && !name.contains(['/', '%']);
    segment.then(|| name.to_owned())
}

fn resource_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

fn lower(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        "CONNECT" => "connect",
        "TRACE" => "trace",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, url: &str) -> RequestInfo {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        RequestInfo::parse(&method, path, query)
    }

    #[test]
    fn a_namespaced_subresource_is_taken_apart() {
        let info = parse(Method::PUT, "/apis/apps/v1/namespaces/a/deployments/d/scale");
        assert_eq!(
            (info.verb, &*info.group, &*info.version, &*info.namespace, &*info.resource, &*info.name, &*info.subresource),
            ("update", "apps", "v1", "a", "deployments", "d", "scale")
        );
    }

    #[test]
    fn a_namespace_carries_its_own_name_as_namespace() {
        let info = parse(Method::GET, "/api/v1/namespaces/a");
        assert_eq!((&*info.namespace, &*info.resource, &*info.name), ("a", "namespaces", "a"));
        let info = parse(Method::PUT, "/api/v1/namespaces/a/finalize");
        assert_eq!((&*info.resource, &*info.subresource), ("namespaces", "finalize"));
    }

    #[test]
    fn verbs_follow_method_name_and_query() {
        assert_eq!(parse(Method::GET, "/api/v1/pods").verb, "list");
        assert_eq!(parse(Method::GET, "/api/v1/pods?watch=1").verb, "watch");
        assert_eq!(parse(Method::GET, "/api/v1/pods?watch=false").verb, "list");
        assert_eq!(parse(Method::GET, "/api/v1/watch/pods").verb, "watch");
        assert_eq!(parse(Method::DELETE, "/api/v1/namespaces/a/pods").verb, "deletecollection");
        assert_eq!(parse(Method::HEAD, "/api/v1/namespaces/a/pods/p").verb, "get");
        assert_eq!(parse(Method::GET, "/healthz").verb, "get");
        assert!(!parse(Method::GET, "/apis/apps/v1").is_resource);
    }

    #[test]
    fn what_follows_the_subresource_stays_as_it_came() {
        for rest in ["", "/", "/d", "/d/", "/a%20b/", "/a%3Fb", "/a%2Fb/c", "/a//b"] {
            for base in ["/api/v1/namespaces/a/services/web:http/proxy", "/api/v1/nodes/n/proxy"] {
                let info = parse(Method::GET, &format!("{base}{rest}"));
                assert_eq!((&*info.subresource, &*info.rest), ("proxy", rest), "{base}");
            }
        }
    }

    #[test]
    fn a_field_selector_on_the_name_names_the_object() {
        let info = parse(Method::GET, "/api/v1/namespaces/a/pods?watch=true&fieldSelector=metadata.name%3Dp");
        assert_eq!((info.verb, &*info.name), ("watch", "p"));
    }

    #[test]
    fn a_name_inside_another_requirements_value_is_no_name() {
        for selector in [
            r"metadata.name!=x\,metadata.name=mine",
            "metadata.name!=mine",
            "metadata.name=..",
            "metadata.name=a,b",
            "metadata.name=a%2525",
        ] {
            assert_eq!(parse(Method::GET, &format!("/api/v1/secrets?fieldSelector={selector}")).name, "", "{selector}");
        }
    }
}

//! Parses `Accept` and picks the first clause this server can produce, as upstream's negotiation does.

use apimachinery::status::{Details, Status, reason};
use http::{HeaderMap, header};

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// What an object is turned into before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// As it is.
    Object,
    /// `meta.k8s.io Table` of that version.
    Table(&'static str),
    /// `meta.k8s.io PartialObjectMetadata` of that version.
    Partial(&'static str),
    /// `meta.k8s.io PartialObjectMetadataList` of that version.
    PartialList(&'static str),
}

/// The outcome of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Negotiated {
    /// The encoding.
    pub(crate) format: Format,
    /// The form.
    pub(crate) form: Form,
    /// Indented, for people.
    pub(crate) pretty: bool,
}

/// What an endpoint can answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Tables and metadata besides the object.
    pub(crate) forms: bool,
    /// Watches, which the 406 text names.
    pub(crate) watch: bool,
    /// Whether the object itself has a protobuf form, as all but custom resources have.
    pub(crate) protobuf: bool,
}

impl Offer {
    /// Plain objects only (discovery, errors).
    pub(crate) const PLAIN: Self = Self { forms: false, watch: false, protobuf: true };
}

const TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const WATCH_TYPES: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// One clause of an Accept header.
#[derive(Debug, PartialEq)]
struct Clause<'a> {
    media_type: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let params: Vec<_> = parts.filter_map(|p| p.split_once('=')).map(|(k, v)| (k.trim(), v.trim())).collect();
        let quality = params.iter().find(|(k, _)| *k == "q").and_then(|(_, v)| v.parse().ok()).unwrap_or(1.0);
        Self { media_type, params, quality }
    }

    fn param(&self, key: &str) -> &'a str {
        self.params.iter().find(|(k, _)| *k == key).map_or("", |(_, v)| v)
    }

    fn format(&self) -> Option<Format> {
        match self.media_type {
            "application/json" | "*/*" | "application/*" | "" => Some(Format::Json),
            "application/yaml" => Some(Format::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Format::Protobuf),
            _ => None,
        }
    }

    /// Upstream: `RequestScope.AllowsMediaTypeTransform`.
    fn form(&self, format: Format, offer: Offer) -> Option<Form> {
        let kind = self.param("as");
        if kind.is_empty() {
            return (offer.protobuf || format != Format::Protobuf).then_some(Form::Object);
        }
        if !offer.forms || self.param("g") != "meta.k8s.io" {
            return None;
        }
        let version = match self.param("v") {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => return None,
        };
        match kind {
            // Cells have no types that protobuf could have fields for.
            "Table" if format != Format::Protobuf => Some(Form::Table(version)),
            "PartialObjectMetadata" => Some(Form::Partial(version)),
            "PartialObjectMetadataList" => Some(Form::PartialList(version)),
            _ => None,
        }
    }
}

/// Picks the answer's form. Errors: 406 in the two wordings upstream has for it.
pub(crate) fn negotiate(headers: &HeaderMap, query: &[(String, String)], offer: Offer) -> Result<Negotiated, Status> {
    let pretty = wants_pretty(headers, query);
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
    let mut clauses: Vec<_> = accept.split(',').map(|c| Clause::parse(c.trim())).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    // Where no type is known at all, go-restful refuses, in words of its own.
    if !clauses.iter().any(|clause| clause.format().is_some()) {
        return Err(none_available(offer));
    }
    let pick = clauses.iter().find_map(|clause| {
        let format = clause.format()?;
        Some(Negotiated { format, form: clause.form(format, offer)?, pretty })
    });
    pick.ok_or_else(|| Status::not_acceptable(&TYPES))
}

/// The form of an error, whatever the endpoint offers: JSON where nothing else is asked for that errors have. Upstream:
/// `responsewriters.ErrorNegotiated`.
pub(crate) fn for_errors(headers: &HeaderMap, query: &[(String, String)]) -> Negotiated {
    negotiate(headers, query, Offer::PLAIN).unwrap_or(Negotiated::PLAIN)
}

fn none_available(offer: Offer) -> Status {
    let mut types = TYPES.to_vec();
    if offer.watch {
        types.extend(WATCH_TYPES);
    }
    let text = format!("406: Not Acceptable\n\nAvailable representations: {}", types.join(", "));
    Status::failure(406, reason::NOT_ACCEPTABLE, text).with_details(Details::default())
}

/// `?pretty=1`, or a user agent that people read with.
fn wants_pretty(headers: &HeaderMap, query: &[(String, String)]) -> bool {
    if let Some((_, value)) = query.iter().find(|(k, _)| k == "pretty") {
        return matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|a| agent.starts_with(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(accept: &str, protobuf: bool) -> Result<(Format, Form), u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        let offer = Offer { forms: true, watch: true, protobuf };
        negotiate(&headers, &[], offer).map(|n| (n.format, n.form)).map_err(|s| s.code)
    }

    fn pick(accept: &str) -> Result<(Format, Form), u16> {
        offered(accept, true)
    }

    #[test]
    fn the_first_clause_that_can_be_produced_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(pick(kubectl), Ok((Format::Json, Form::Table("v1"))));
        assert_eq!(pick("application/vnd.kubernetes.protobuf,application/json"), Ok((Format::Protobuf, Form::Object)));
        assert_eq!(pick("*/*"), Ok((Format::Json, Form::Object)));
    }

    #[test]
    fn quality_orders_clauses() {
        assert_eq!(pick("application/yaml;q=0.5,application/json;q=0.8"), Ok((Format::Json, Form::Object)));
        assert_eq!(pick("application/json;q=0.1,application/yaml"), Ok((Format::Yaml, Form::Object)));
    }

    #[test]
    fn what_cannot_be_produced_is_not_acceptable() {
        assert_eq!(pick("application/xml"), Err(406));
        assert_eq!(pick("application/json;as=Nonsense;v=v1;g=meta.k8s.io"), Err(406));
    }

    #[test]
    fn custom_resources_have_protobuf_for_their_metadata_only() {
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(offered(partial, false), Ok((Format::Protobuf, Form::Partial("v1"))));
        assert_eq!(offered("application/vnd.kubernetes.protobuf,application/json", false), Ok((Format::Json, Form::Object)));
        assert_eq!(offered("application/vnd.kubernetes.protobuf", false), Err(406));
    }

    #[test]
    fn tables_have_no_protobuf() {
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(pick(table), Err(406));
        assert_eq!(pick(&format!("{table},application/json")), Ok((Format::Json, Form::Object)));
    }

    #[test]
    fn errors_take_the_first_form_that_is_no_transformation() {
        let errors = |accept: &str| for_errors(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]), &[]).format;
        assert_eq!(
            errors("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"),
            Format::Json
        );
        assert_eq!(errors("application/vnd.kubernetes.protobuf,application/json"), Format::Protobuf);
        assert_eq!(errors("application/xml"), Format::Json);
    }
}

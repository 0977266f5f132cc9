//! Parses `Accept` and picks the first clause this server can produce, as upstream's negotiation does.

#[cfg(test)]
mod tests;

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
    /// `application/cbor`; watches are `application/cbor-seq`.
    Cbor,
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
    /// CBOR, where its feature is on.
    pub(crate) cbor: bool,
}

impl Offer {
    /// Plain objects only (discovery, errors).
    pub(crate) fn plain(cbor: bool) -> Self {
        Self { forms: false, watch: false, protobuf: true, cbor }
    }
}

/// The media types of objects, the last one where its feature is on.
const TYPES: [&str; 4] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", CBOR];
const CBOR: &str = "application/cbor";
const WATCH_TYPES: [&str; 3] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor-seq"];

/// The media types of objects.
pub(super) fn types(cbor: bool) -> &'static [&'static str] {
    if cbor { &TYPES } else { &TYPES[..3] }
}

/// The media types of watches.
pub(crate) fn watch_types(cbor: bool) -> &'static [&'static str] {
    if cbor { &WATCH_TYPES } else { &WATCH_TYPES[..2] }
}

/// One clause of an Accept header.
#[derive(Debug, PartialEq)]
struct Clause<'a> {
    media_type: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Clause<'a> {
    /// `None` for what is no type at all.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = match parts.next().unwrap_or_default() {
            "*" => "*/*",
            named if named.split('/').count() == 2 => named,
            _ => return None,
        };
        let params: Vec<_> = parts.filter_map(|p| p.split_once('=')).map(|(k, v)| (k.trim(), v.trim())).collect();
        let quality = params.iter().find(|(k, _)| *k == "q").map_or(1.0, |(_, v)| v.parse().unwrap_or(0.0));
        Some(Self { media_type, params, quality })
    }

    /// Upstream's order (goautoneg): by quality, but what is named goes before a pattern that was sent earlier, whatever their qualities.
    fn goes_before(&self, other: &Self) -> bool {
        let any = |clause: &Self| clause.media_type.starts_with("*/");
        let any_of_type = |clause: &Self| clause.media_type.ends_with("/*");
        self.quality > other.quality || (!any(self) && any(other)) || (!any_of_type(self) && any_of_type(other))
    }

    fn param(&self, key: &str) -> &'a str {
        self.params.iter().find(|(k, _)| *k == key).map_or("", |(_, v)| v)
    }

    fn format(&self, offer: Offer) -> Option<Format> {
        match self.media_type {
            "application/json" | "*/*" | "application/*" => Some(Format::Json),
            "application/yaml" => Some(Format::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Format::Protobuf),
            CBOR if offer.cbor => Some(Format::Cbor),
            _ => None,
        }
    }

    /// Upstream: `RequestScope.AllowsMediaTypeTransform`.
    fn form(&self, format: Format, offer: Offer) -> Option<Form> {
        let streams = matches!(self.param("stream"), "" | "watch") && (format != Format::Yaml || self.param("stream").is_empty());
        if !streams {
            return None;
        }
        let kind = self.param("as");
        if [kind, self.param("g"), self.param("v")].iter().all(|param| param.is_empty()) {
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
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).filter(|accept| !accept.is_empty()).unwrap_or("*/*");
    let clauses = in_order(accept.split(',').filter_map(Clause::parse));
    // Where nothing is known by its name, go-restful refuses, in words of its own; custom resources are not behind it.
    if offer.protobuf && !clauses.iter().any(|clause| clause.media_type == "*/*" || available(offer).contains(&clause.media_type)) {
        return Err(none_available(offer));
    }
    let pick = clauses.iter().find_map(|clause| {
        let format = clause.format(offer)?;
        Some(Negotiated { format, form: clause.form(format, offer)?, pretty: pretty || clause.param("pretty") == "1" })
    });
    pick.ok_or_else(|| Status::not_acceptable(types(offer.cbor)))
}

/// The form of an error, whatever the endpoint offers: JSON where nothing else is asked for that errors have. Upstream:
/// `responsewriters.ErrorNegotiated`.
pub(crate) fn for_errors(headers: &HeaderMap, query: &[(String, String)], cbor: bool) -> Negotiated {
    negotiate(headers, query, Offer::plain(cbor)).unwrap_or(Negotiated::PLAIN)
}

/// Sorted as Go sorts few elements, by insertion: the order is none that could be sorted by otherwise.
fn in_order<'a>(clauses: impl Iterator<Item = Clause<'a>>) -> Vec<Clause<'a>> {
    let mut sorted: Vec<Clause<'a>> = Vec::new();
    for clause in clauses {
        let at = sorted.iter().rposition(|before| !clause.goes_before(before)).map_or(0, |at| at + 1);
        sorted.insert(at, clause);
    }
    sorted
}

/// All that go-restful lets pass.
fn available(offer: Offer) -> Vec<&'static str> {
    let watch = if offer.watch { watch_types(offer.cbor) } else { &[] };
    [types(offer.cbor), watch].concat()
}

fn none_available(offer: Offer) -> Status {
    let text = format!("406: Not Acceptable\n\nAvailable representations: {}", available(offer).join(", "));
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

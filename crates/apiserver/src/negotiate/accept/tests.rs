use super::*;

fn offered(accept: &str, protobuf: bool) -> Result<(Format, Form), u16> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, accept.parse().unwrap());
    let offer = Offer { forms: true, watch: true, protobuf, cbor: false };
    negotiate(&headers, &[], offer).map(|n| (n.format, n.form)).map_err(|s| s.code)
}

#[test]
fn cbor_is_there_where_its_feature_is_on() {
    let headers = |accept: &str| HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
    let offer = |cbor| Offer { forms: true, watch: true, protobuf: true, cbor };
    let pick = |accept: &str, cbor| negotiate(&headers(accept), &[], offer(cbor)).map(|n| (n.format, n.form));
    assert_eq!(pick("application/cbor,application/json", true).unwrap(), (Format::Cbor, Form::Object));
    let table = "application/cbor;as=Table;v=v1;g=meta.k8s.io";
    assert_eq!(pick(table, true).unwrap(), (Format::Cbor, Form::Table("v1")));
    assert_eq!(pick("application/cbor,application/json", false).unwrap(), (Format::Json, Form::Object));
    let refused = pick("application/xml", true).unwrap_err();
    assert!(refused.message.ends_with("protobuf;stream=watch, application/cbor-seq"), "{}", refused.message);
    let refused = pick("application/cbor", false).unwrap_err();
    assert_eq!((refused.code, refused.message.contains("cbor")), (406, false));
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
fn what_is_named_goes_before_a_pattern() {
    assert_eq!(pick("*/*,application/yaml"), Ok((Format::Yaml, Form::Object)));
    assert_eq!(pick("*/*;q=0.9,application/yaml;q=0.5"), Ok((Format::Yaml, Form::Object)));
    assert_eq!(pick("application/yaml;q=0.5,*"), Ok((Format::Json, Form::Object)));
}

#[test]
fn a_pattern_alone_is_too_little_but_for_custom_resources() {
    assert_eq!(pick("application/*"), Err(406));
    assert_eq!(offered("application/*", false), Ok((Format::Json, Form::Object)));
    assert_eq!(pick("application/*,application/json;as=Nonsense"), Ok((Format::Json, Form::Object)));
}

#[test]
fn parameters_may_rule_a_clause_out() {
    let refused = ["application/yaml;stream=watch", "application/json;stream=other", "application/json;g=meta.k8s.io;v=v1"];
    assert_eq!(refused.map(pick), [Err(406); 3]);
    assert_eq!(pick("application/json;stream=watch"), Ok((Format::Json, Form::Object)));
    let accept = HeaderMap::from_iter([(header::ACCEPT, "application/json;pretty=1".parse().unwrap())]);
    assert!(negotiate(&accept, &[], Offer::plain(false)).unwrap().pretty);
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
    let errors = |accept: &str| for_errors(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]), &[], false).format;
    assert_eq!(errors("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"), Format::Json);
    assert_eq!(errors("application/vnd.kubernetes.protobuf,application/json"), Format::Protobuf);
    assert_eq!(errors("application/xml"), Format::Json);
}

//! How versions are converted.

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;

use crate::registry::{admissionregistration::webhook, check::At};

const RECOGNIZED: [&str; 2] = ["v1", "v1beta1"];

/// `spec.conversion` in upstream's internal form. `lenient`: a stored definition recognizes no version of reviews anyway.
pub(super) fn check(conversion: &At<'_>, lenient: bool, errs: &mut ErrorList) {
    if !conversion.is_set() {
        return;
    }
    let strategy = conversion.get("strategy");
    if strategy.is_empty() {
        errs.push(strategy.required(""));
    } else {
        strategy.one_of(&["None", "Webhook"], errs);
    }
    let (config, versions) = (conversion.get("webhookClientConfig"), conversion.get("conversionReviewVersions"));
    if strategy.str() == "Webhook" {
        if config.is_set() {
            webhook::client(&config, errs);
        } else {
            errs.push(config.required("required when strategy is set to Webhook"));
        }
        review_versions(&versions, lenient, errs);
        return;
    }
    for unused in [&config, &versions].into_iter().filter(|unused| unused.size() > 0) {
        errs.push(unused.forbidden("should not be set when strategy is not set to Webhook"));
    }
}

fn review_versions(versions: &At<'_>, lenient: bool, errs: &mut ErrorList) {
    let names = versions.strs();
    if names.is_empty() {
        return errs.push(versions.required(""));
    }
    for (at, version) in versions.items().iter().enumerate() {
        if names[..at].contains(&version.str()) {
            errs.push(version.invalid("duplicate version"));
        } else {
            version.each_of(names::is_dns1035_label(version.str()), errs);
        }
    }
    if !lenient && !is_recognized(&names) {
        errs.push(Error::invalid(
            &versions.path,
            versions.value.clone(),
            format!("must include at least one of {}", RECOGNIZED.join(", ")),
        ));
    }
}

/// Whether reviews can be sent in one of the versions.
pub(super) fn is_recognized(versions: &[&str]) -> bool {
    versions.iter().any(|version| RECOGNIZED.contains(version))
}

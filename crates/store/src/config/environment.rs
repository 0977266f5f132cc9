//! Variables that stand for flags: `ETCD_NAME` for `--name` (etcd, `pkg/flags`).

use std::collections::BTreeMap;

use super::{
    flags, kind,
    settings::{Note, Settings},
};

pub(super) const PREFIX: &str = "ETCD_";

/// Names the configuration file.
pub const CONFIG_FILE: &str = "ETCD_CONFIG_FILE";

/// Variables of etcd's own images and scripts that are no flags; etcd is silent about them, too.
const OTHERS: [&str; 3] = [CONFIG_FILE, "ETCD_VERSION", "ETCD_UNSUPPORTED_ARCH"];

/// What is wrong with a variable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("invalid value {value:?} for {variable}: {cause}")]
    Value { variable: String, value: String, cause: kind::Error },
    #[error("{variable} and --{flag} are both given: unset the variable or leave out the flag")]
    Shadowed { variable: String, flag: &'static str },
}

/// Takes what variables say of flags that were not given.
///
/// # Errors
/// A value is none, or a flag was given as well: etcd does not start then, rather than let one of them win unseen.
pub fn read(variables: &BTreeMap<String, String>, settings: &mut Settings) -> Result<(), Error> {
    let given: Vec<_> = flags::all().filter(|flag| settings.is_given(flag.name)).collect();
    for flag in flags::all() {
        let variable = flag.variable();
        let Some(value) = variables.get(&variable) else { continue };
        if given.iter().any(|other| other.name == flag.name) {
            return Err(Error::Shadowed { variable, flag: flag.name });
        }
        if value.is_empty() {
            continue;
        }
        let set = settings.set(flag, value);
        set.map_err(|cause| Error::Value { variable: variable.clone(), value: value.clone(), cause })?;
        let secret = flag.name.ends_with("password");
        settings.notes.push(Note::Variable { name: variable, value: if secret { "…".into() } else { value.clone() } });
    }
    let known = |name: &String| OTHERS.contains(&name.as_str()) || flags::all().any(|flag| flag.variable() == *name);
    let unknown = variables.keys().filter(|name| name.starts_with(PREFIX) && !known(name)).cloned();
    settings.notes.extend(unknown.map(Note::UnknownVariable));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn variables_stand_for_flags_and_empty_ones_for_nothing() {
        let mut settings = Settings::default();
        read(&variables(&[("ETCD_NAME", "x"), ("ETCD_DATA_DIR", ""), ("HOME", "/")]), &mut settings).unwrap();
        assert_eq!((settings.text("name").as_str(), settings.is_given("data-dir")), ("x", false));
        assert_eq!(settings.notes, [Note::Variable { name: "ETCD_NAME".into(), value: "x".into() }]);
    }

    #[test]
    fn a_flag_and_its_variable_exclude_each_other() {
        let mut settings = Settings::default();
        settings.set(flags::find("name").unwrap(), "x").unwrap();
        let error = read(&variables(&[("ETCD_NAME", "y")]), &mut settings).unwrap_err();
        assert!(error.to_string().starts_with("ETCD_NAME and --name are both given"), "{error}");
    }

    #[test]
    fn unknown_variables_are_told_of() {
        let mut settings = Settings::default();
        let all = variables(&[("ETCD_NAMES", "x"), ("ETCD_VERSION", "3.6"), ("ETCDCTL_API", "3")]);
        read(&all, &mut settings).unwrap();
        assert_eq!(settings.notes, [Note::UnknownVariable("ETCD_NAMES".into())]);
        let error = read(&variables(&[("ETCD_HEARTBEAT_INTERVAL", "x")]), &mut settings).unwrap_err();
        assert_eq!(error.to_string(), r#"invalid value "x" for ETCD_HEARTBEAT_INTERVAL: parse error"#);
    }
}

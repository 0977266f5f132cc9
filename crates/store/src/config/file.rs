//! etcd's configuration file: YAML whose keys are the flags' names, with TLS, discovery and sockets in sections of their own
//! (`server/embed/config.go`, `configYAML`). Beside one, flags and variables do not count.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::{
    flags, kind,
    settings::{Note, Settings},
};

/// Keys under a section, where they are not the flag's name without the section's prefix.
const SECTIONS: &[(&str, &[(&str, &str)])] = &[
    (
        "client-transport-security",
        &[
            ("cert-file", "cert-file"),
            ("key-file", "key-file"),
            ("client-cert-file", "client-cert-file"),
            ("client-key-file", "client-key-file"),
            ("client-cert-auth", "client-cert-auth"),
            ("trusted-ca-file", "trusted-ca-file"),
            ("auto-tls", "auto-tls"),
            ("allowed-cn", "client-transport-security.allowed-cn"),
            ("allowed-hostname", "client-cert-allowed-hostname"),
            ("skip-client-san-verification", "client-transport-security.skip-client-san-verification"),
        ],
    ),
    (
        "peer-transport-security",
        &[
            ("cert-file", "peer-cert-file"),
            ("key-file", "peer-key-file"),
            ("client-cert-file", "peer-client-cert-file"),
            ("client-key-file", "peer-client-key-file"),
            ("client-cert-auth", "peer-client-cert-auth"),
            ("trusted-ca-file", "peer-trusted-ca-file"),
            ("auto-tls", "peer-auto-tls"),
            ("allowed-cn", "peer-cert-allowed-cn"),
            ("allowed-hostname", "peer-cert-allowed-hostname"),
            ("skip-client-san-verification", "peer-skip-client-san-verification"),
        ],
    ),
    ("discovery-config", &[("token", "discovery-token"), ("endpoints", "discovery-endpoints")]),
    ("socket-options", &[("reuse-port", "socket-reuse-port"), ("reuse-address", "socket-reuse-address")]),
];

/// Sections that say who is let in: a key that is not known is refused there, lest a restriction be lost by a slip of the pen.
const OF_TLS: &str = "-transport-security";

/// Keys that differ from the flag's name.
const ALIASES: [(&str, &str); 1] = [("experimental-snapshot-catch-up-entries", "experimental-snapshot-catchup-entries")];

/// Flags that stand in a section, or only on a command line: TLS, and what tells of this very file.
const NOT_AT_TOP: [&str; 1] = ["discovery-fallback"];

/// What is wrong with a configuration file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("read the configuration file {0}")]
    Read(PathBuf, #[source] std::io::Error),
    #[error("the configuration file {0} is not YAML")]
    Yaml(PathBuf, #[source] serde_yaml_ng::Error),
    #[error("the configuration file {0} is no mapping of flags to values")]
    NoMapping(PathBuf),
    #[error("the configuration file {file} has no good value for {key}")]
    Value { file: PathBuf, key: String, source: kind::Error },
    #[error("the configuration file {file} has {key}, and no such key is known")]
    UnknownKey { file: PathBuf, key: String },
}

/// Reads a file.
///
/// # Errors
/// Names the file, and the key if one is to blame.
pub fn load(path: &Path) -> Result<Settings, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read(path.to_owned(), source))?;
    read(path, &text)
}

fn read(path: &Path, text: &str) -> Result<Settings, Error> {
    let mut settings = Settings::default();
    settings.notes.push(Note::File(path.display().to_string()));
    let content: Json = serde_yaml_ng::from_str(text).map_err(|source| Error::Yaml(path.to_owned(), source))?;
    let keys = match content {
        Json::Null => return Ok(settings),
        Json::Object(keys) => keys,
        _ => return Err(Error::NoMapping(path.to_owned())),
    };
    let bad = |(key, source)| match source {
        Some(source) => Error::Value { file: path.to_owned(), key, source },
        None => Error::UnknownKey { file: path.to_owned(), key },
    };
    for (key, value) in &keys {
        match SECTIONS.iter().find(|(section, _)| section == key) {
            Some((section, names)) => take_section(section, names, value, &mut settings).map_err(bad)?,
            None => take(key, top_level(key), value, &mut settings).map_err(bad)?,
        }
    }
    Ok(settings)
}

/// A key, and what is wrong with its value; nothing if it is the key.
type Bad = (String, Option<kind::Error>);

fn take_section(section: &str, names: &[(&str, &'static str)], value: &Json, settings: &mut Settings) -> Result<(), Bad> {
    let none = Map::new();
    let keys = match value {
        Json::Object(keys) => keys,
        Json::Null => &none,
        _ => return Err((section.to_owned(), Some(kind::Error::Type("a mapping", "something else")))),
    };
    for (key, value) in keys {
        let flag = names.iter().find(|(name, _)| name == key).map(|(_, flag)| *flag);
        let key = format!("{section}.{key}");
        if flag.is_none() && section.ends_with(OF_TLS) {
            return Err((key, None));
        }
        take(&key, flag, value, settings)?;
    }
    Ok(())
}

/// The flag of a key outside sections.
fn top_level(key: &str) -> Option<&'static str> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, name)| name);
    let in_a_section = |name: &str| SECTIONS.iter().flat_map(|(_, names)| *names).any(|(_, flag)| *flag == name);
    flags::find(name).map(|flag| flag.name).filter(|name| !in_a_section(name) && !NOT_AT_TOP.contains(name))
}

/// As in etcd, a key that is not known does no harm here, and one without a value says nothing.
fn take(key: &str, flag: Option<&'static str>, value: &Json, settings: &mut Settings) -> Result<(), Bad> {
    match flag.and_then(|name| flags::settings().find(|flag| flag.name == name)) {
        None => settings.notes.push(Note::UnknownKey(key.to_owned())),
        Some(_) if value.is_null() => {}
        Some(flag) => {
            let value = flag.kind.take(value).map_err(|error| (key.to_owned(), Some(error)))?;
            settings.put(flag, value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn file(text: &str) -> Result<Settings, Error> {
        read(Path::new("etcd.yaml"), text)
    }

    #[test]
    fn keys_are_flags_and_sections_hold_some_of_them() {
        let settings = file(concat!(
            "name: x\nlisten-client-urls: http://a:1,http://b:2\nsnapshot-count: 7\npre-vote: true\n",
            "corrupt-check-time: 60000000000\nlog-outputs: [stderr]\nexperimental-snapshot-catch-up-entries: 9\n",
            "client-transport-security:\n  cert-file: c\n  key-file: k\n  allowed-hostname: [h]\n",
            "peer-transport-security:\n  trusted-ca-file: ca\n  client-cert-auth: true\n",
        ));
        let settings = settings.unwrap();
        assert_eq!((settings.text("name"), settings.number::<u64>("snapshot-count")), ("x".into(), 7));
        assert_eq!(settings.urls("listen-client-urls").len(), 2);
        assert_eq!(settings.time("corrupt-check-time"), Duration::from_secs(60));
        assert_eq!((settings.text("cert-file"), settings.text("peer-trusted-ca-file")), ("c".into(), "ca".into()));
        assert!(settings.on("peer-client-cert-auth") && !settings.on("client-cert-auth"));
        assert!(settings.is_given("experimental-snapshot-catchup-entries"));
    }

    #[test]
    fn unknown_keys_are_told_of_and_empty_ones_ignored() {
        let settings = file("nmae: x\nname:\ncert-file: c\npeer-transport-security:\n").unwrap();
        let unknown = |key: &str| Note::UnknownKey(key.to_owned());
        assert_eq!(settings.notes[1..], [unknown("cert-file"), unknown("nmae")]);
        assert!(!settings.is_given("name") && file("").is_ok());
    }

    #[test]
    fn clients_are_restricted_by_name_in_a_file_only() {
        let mut settings = file("client-transport-security:\n  allowed-cn: [admin]\n  skip-client-san-verification: true\n").unwrap();
        assert_eq!(settings.words("client-transport-security.allowed-cn"), ["admin"]);
        settings.settle().unwrap();
        let told = |note: &Note| matches!(note, Note::NoEffect(key, _) if key == "client-transport-security.skip-client-san-verification");
        assert!(settings.notes.iter().any(told), "{:?}", settings.notes);
        let on_a_line = super::super::line::read(&["--client-transport-security.allowed-cn=a".to_owned()], &mut Settings::default());
        assert!(on_a_line.is_err());
    }

    #[test]
    fn an_unknown_key_beside_certificates_is_refused() {
        for section in ["client-transport-security", "peer-transport-security"] {
            let error = file(&format!("{section}:\n  allowed-cns: [admin]\n")).unwrap_err().to_string();
            assert_eq!(error, format!("the configuration file etcd.yaml has {section}.allowed-cns, and no such key is known"));
        }
    }

    #[test]
    fn errors_name_the_file_and_the_key() {
        let told = |text: &str| {
            let error = file(text).unwrap_err();
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            format!("{error}: {cause}")
        };
        let text =
            "the configuration file etcd.yaml has no good value for corrupt-check-time: expected a number of nanoseconds, found a string";
        assert_eq!(told("corrupt-check-time: 5m"), text);
        assert!(told("peer-transport-security:\n  auto-tls: 1").contains("for peer-transport-security.auto-tls: expected true or false"));
        assert!(told("- a").contains("is no mapping"));
        assert!(told("a: [").contains("is not YAML"));
    }
}

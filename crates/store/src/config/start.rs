//! From what the program is started with to what it shall do.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use super::{
    Config, ETCD_VERSION, environment,
    features::{FEATURES, WITHOUT_EFFECT},
    file, help,
    line::{self, Ask},
    settings::{self, Note, Settings},
};

/// What the program shall do.
#[derive(Debug)]
pub enum Start {
    /// Run a member.
    Serve {
        /// How.
        config: Box<Config>,
        /// What is logged of it first.
        notes: Vec<Note>,
    },
    /// Print a text.
    Print(String),
}

/// Why the program does not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Line(#[from] line::Error),
    #[error(transparent)]
    Environment(#[from] environment::Error),
    #[error(transparent)]
    File(#[from] file::Error),
    #[error(transparent)]
    Settings(#[from] settings::Error),
    #[error(transparent)]
    Config(#[from] super::Error),
    #[error("{0:?} is not UTF-8")]
    NotText(OsString),
    #[error("no member is asked for")]
    NoMember,
}

impl Error {
    /// etcd's: 2 when the command line cannot be read, 1 when it cannot be served.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Line(line::Error::Word(_)) => 1,
            Error::Line(_) => 2,
            _ => 1,
        }
    }
}

/// Reads the words after the program's name and the environment.
///
/// # Errors
/// Names the flag, variable or key.
pub fn read(words: &[String], variables: &BTreeMap<String, String>) -> Result<Start, Error> {
    let mut settings = Settings::default();
    let (ask, file) = line::read(words, &mut settings)?;
    match ask {
        Ask::Help => return Ok(Start::Print(help::all_flags())),
        Ask::Version => return Ok(Start::Print(version())),
        Ask::Serve => {}
    }
    let file = file.or_else(|| variables.get(environment::CONFIG_FILE).filter(|file| !file.is_empty()).cloned());
    match file {
        Some(file) => settings = file::load(Path::new(&file))?,
        None => environment::read(variables, &mut settings)?,
    }
    settings.settle()?;
    let config = Config::new(&settings);
    config.validate()?;
    settings.notes.extend(gates_without_effect(&config));
    Ok(Start::Serve { config: Box::new(config), notes: settings.notes })
}

/// Features that were changed, to no effect.
fn gates_without_effect(config: &Config) -> Vec<Note> {
    let changed = |name: &str| FEATURES.iter().any(|feature| feature.name == name && config.upkeep.enabled(name) != feature.default);
    let without = WITHOUT_EFFECT.iter().filter(|(name, _)| changed(name));
    without.map(|(name, reason)| Note::NoEffect(format!("--feature-gates={name}"), reason)).collect()
}

fn version() -> String {
    format!("etcd Version: {ETCD_VERSION}\nQuarterdeck store: {}\n", env!("CARGO_PKG_VERSION"))
}

/// What this process was started with.
///
/// # Errors
/// A word or a variable of etcd's is not UTF-8: data would come to lie elsewhere than somebody said.
pub fn process() -> Result<(Vec<String>, BTreeMap<String, String>), Error> {
    texts(std::env::args_os().skip(1), std::env::vars_os())
}

fn texts(
    words: impl Iterator<Item = OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<(Vec<String>, BTreeMap<String, String>), Error> {
    let text = |text: OsString| text.into_string().map_err(Error::NotText);
    let mut flags = BTreeMap::new();
    for (name, value) in variables.filter(|(name, _)| name.as_encoded_bytes().starts_with(environment::PREFIX.as_bytes())) {
        flags.insert(text(name)?, text(value)?);
    }
    Ok((words.map(text).collect::<Result<_, _>>()?, flags))
}

impl Note {
    /// Writes it to the log.
    pub fn log(&self) {
        match self {
            Note::Variable { name, value } => {
                tracing::info!(variable_name = name, variable_value = value, "recognized and used environment variable");
            }
            Note::UnknownVariable(name) => tracing::warn!(environment_variable = name, "unrecognized environment variable"),
            Note::File(path) => tracing::info!(path, "loaded the configuration file; flags and environment variables do not count"),
            Note::UnknownKey(key) => tracing::warn!(key, "unrecognized key in the configuration file"),
            Note::Deprecated(flag, instead) => tracing::warn!(flag = format!("--{flag}"), instead, "deprecated flag"),
            Note::NoEffect(flag, reason) => tracing::info!(flag, reason, "flag accepted without effect"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(words: &[&str], variables: &[(&str, &str)]) -> Result<Start, Error> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        read(&words, &variables.collect())
    }

    fn served(start: Start) -> (Config, Vec<Note>) {
        let Start::Serve { config, notes } = start else { panic!("it prints") };
        (*config, notes)
    }

    #[test]
    fn a_configuration_file_makes_flags_and_variables_count_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("etcd.yaml");
        std::fs::write(&file, "name: file\n").unwrap();
        let file = file.to_str().unwrap();
        let (config, _) = served(start(&["--name", "line", "--config-file", file], &[("ETCD_DATA_DIR", "x")]).unwrap());
        assert_eq!((config.name.as_str(), config.data_dir), ("file", None));
        let (config, _) = served(start(&[], &[(environment::CONFIG_FILE, file)]).unwrap());
        assert_eq!(config.name, "file");
        assert_eq!(start(&["--config-file", "/nowhere"], &[]).unwrap_err().exit_code(), 1);
    }

    #[test]
    fn exit_codes_are_those_of_etcd() {
        let code = |words: &[&str]| start(words, &[]).unwrap_err().exit_code();
        assert_eq!((code(&["--nope"]), code(&["--name"]), code(&["--max-txn-ops", "x"])), (2, 2, 2));
        assert_eq!((code(&["word"]), code(&["--heartbeat-interval", "0"]), code(&["--discovery-srv", "x"])), (1, 1, 1));
    }

    #[test]
    fn words_and_variables_that_are_not_utf_8_are_refused() {
        use std::os::unix::ffi::OsStringExt as _;
        let (bad, good) = (|| OsString::from_vec(b"/data/\xff".to_vec()), || OsString::from("a"));
        let told = |word, name: &str, value| texts(std::iter::once(word), std::iter::once((name.into(), value)));
        assert_eq!(told(bad(), "ETCD_NAME", good()).unwrap_err().to_string(), r#""/data/\xFF" is not UTF-8"#);
        assert!(matches!(told(good(), "ETCD_DATA_DIR", bad()), Err(Error::NotText(_))));
        let (words, variables) = told(good(), "OF_SOMEBODY_ELSE", bad()).unwrap();
        assert_eq!((words, variables), (vec!["a".to_owned()], BTreeMap::new()));
    }

    #[test]
    fn gates_without_effect_are_told_of() {
        let (_, notes) = served(start(&["--experimental-stop-grpc-service-on-defrag"], &[]).unwrap());
        assert!(notes.iter().any(|note| matches!(note, Note::NoEffect(flag, _) if flag.ends_with("StopGRPCServiceOnDefrag"))));
        let (_, notes) = served(start(&["--feature-gates=TxnModeWriteWithSharedBuffer=true"], &[]).unwrap());
        assert_eq!(notes, [], "that is the default");
    }

    #[test]
    fn the_version_and_all_flags_are_printed() {
        let printed = |word| match start(&[word], &[]).unwrap() {
            Start::Print(text) => text,
            Start::Serve { .. } => panic!("it serves"),
        };
        assert!(printed("--version").starts_with("etcd Version: 3.6."));
        let help = printed("--help");
        assert!(super::super::flags::all().all(|flag| help.contains(&format!("  --{} '", flag.name))));
    }
}

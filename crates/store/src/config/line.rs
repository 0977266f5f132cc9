//! Reads a command line as Go's package `flag` does: one dash or two, the value after `=` or in the next word, booleans
//! alone, and nothing after the flags.

use super::{
    flags,
    kind::{self, Kind},
    settings::Settings,
};

/// What a command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Run a member.
    Serve,
    /// `-h`, `--help`.
    Help,
    /// `--version`.
    Version,
}

/// What is wrong with it. Go's words; all but the last end etcd with 2.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
    #[error("flag needs an argument: -{0}")]
    NoValue(&'static str),
    #[error("invalid value {value:?} for flag -{flag}: {cause}")]
    Value { flag: String, value: String, cause: kind::Error },
    #[error("invalid boolean value {value:?} for -{flag}: {cause}")]
    Bool { flag: String, value: String, cause: kind::Error },
    #[error("{0:?} is not a valid flag")]
    Word(String),
}

/// Reads the words after the program's name into `settings`; the configuration file, if one is named.
///
/// # Errors
/// Names the word.
pub fn read(words: &[String], settings: &mut Settings) -> Result<(Ask, Option<String>), Error> {
    let (mut ask, mut file) = (Ask::Serve, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(body) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|_| word.len() > 1) else {
            return Err(Error::Word(word.clone()));
        };
        if body.is_empty() {
            return words.next().map_or(Ok((ask, file)), |word| Err(Error::Word(word.clone())));
        }
        if body.starts_with(['-', '=']) {
            return Err(Error::Syntax(word.clone()));
        }
        let (name, value) = body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value.to_owned())));
        let mut next = |name| value.clone().or_else(|| words.next().cloned()).ok_or(Error::NoValue(name));
        match (name, flags::find(name)) {
            ("h" | "help", None) => return Ok((Ask::Help, None)),
            ("version", None) => {
                let text = value.as_deref().unwrap_or("true");
                let bad = |cause| Error::Bool { flag: name.to_owned(), value: text.to_owned(), cause };
                let on = Kind::Bool.read(text).map_err(bad)? == kind::Value::Bool(true);
                ask = if on { Ask::Version } else { Ask::Serve };
            }
            ("config-file", None) => file = Some(next("config-file")?),
            (_, None) => return Err(Error::Unknown(name.to_owned())),
            (_, Some(flag)) if flag.kind.stands_alone() => {
                let text = value.unwrap_or_else(|| "true".to_owned());
                settings.set(flag, &text).map_err(|cause| Error::Bool { flag: name.to_owned(), value: text, cause })?;
            }
            (_, Some(flag)) => {
                let text = next(flag.name)?;
                settings.set(flag, &text).map_err(|cause| Error::Value { flag: name.to_owned(), value: text, cause })?;
            }
        }
    }
    Ok((ask, file.filter(|file| !file.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Result<(Settings, Ask, Option<String>), Error> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut settings = Settings::default();
        read(&words, &mut settings).map(|(ask, file)| (settings, ask, file))
    }

    #[test]
    fn one_dash_or_two_and_a_value_here_or_there() {
        for words in [&["--name", "x"][..], &["-name", "x"], &["--name=x"], &["-name=x"], &["--name=y", "--name=x"]] {
            assert_eq!(line(words).unwrap().0.text("name"), "x", "{words:?}");
        }
        assert_eq!(line(&["--name="]).unwrap().0.text("name"), "");
    }

    #[test]
    fn booleans_stand_alone_and_take_no_word_after_them() {
        let on = |words: &[&str]| line(words).unwrap().0.on("client-cert-auth");
        assert!(on(&["--client-cert-auth"]) && on(&["--client-cert-auth=true"]) && !on(&["--client-cert-auth=0"]));
        assert_eq!(line(&["--client-cert-auth", "true"]).unwrap_err(), Error::Word("true".into()));
        assert!(line(&["--snapshot=whatever", "--vv"]).is_ok());
    }

    #[test]
    fn help_and_version_are_asked_for() {
        assert_eq!(line(&["-h"]).unwrap().1, Ask::Help);
        assert_eq!(line(&["--name", "x", "--version"]).unwrap().1, Ask::Version);
        assert_eq!(line(&["--version=false"]).unwrap().1, Ask::Serve);
        assert_eq!(line(&["--config-file", "f"]).unwrap().2.as_deref(), Some("f"));
    }

    #[test]
    fn errors_name_the_flag_and_the_value() {
        let error = |words: &[&str]| line(words).unwrap_err().to_string();
        assert_eq!(error(&["--nope=1"]), "flag provided but not defined: -nope");
        assert_eq!(error(&["--name"]), "flag needs an argument: -name");
        assert_eq!(error(&["---x"]), "bad flag syntax: ---x");
        assert_eq!(error(&["--max-txn-ops", "x"]), r#"invalid value "x" for flag -max-txn-ops: parse error"#);
        assert_eq!(error(&["--pre-vote=maybe"]), r#"invalid boolean value "maybe" for -pre-vote: parse error"#);
        assert_eq!(error(&["extra"]), r#""extra" is not a valid flag"#);
        assert_eq!(error(&["--", "extra"]), r#""extra" is not a valid flag"#);
    }
}

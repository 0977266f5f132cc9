//! What was said of each flag, and what holds where nobody said anything.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::{
    flags::{self, Flag, Meaning},
    kind::{self, Value},
};
use crate::url::Url;

/// Something about the configuration that is logged once, at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A variable was used.
    Variable {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// A variable looks like one of a flag, but there is no such flag.
    UnknownVariable(String),
    /// A configuration file was read; nothing else counts.
    File(String),
    /// A key of the configuration file is not known.
    UnknownKey(String),
    /// A flag has another name by now.
    Deprecated(&'static str, String),
    /// A flag or feature does nothing here, for this reason.
    NoEffect(String, &'static str),
}

/// Flags that cannot be served as they were given.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot set --{0} and --{1} at the same time, please use --{1} only")]
    BothNames(&'static str, &'static str),
    #[error(
        "cannot specify both flags: --{flag} and --feature-gates={feature}=(true|false) at the same time, please just use --feature-gates"
    )]
    FlagAndGate { flag: &'static str, feature: &'static str },
    #[error("--{0}: {1}")]
    Refused(&'static str, &'static str),
}

/// Flags that were given, with their values.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    given: BTreeMap<&'static str, Value>,
    /// For the log.
    pub notes: Vec<Note>,
    #[cfg(test)]
    pub(super) asked: std::cell::RefCell<std::collections::BTreeSet<&'static str>>,
}

impl Settings {
    /// Gives a flag a value; the last one counts.
    ///
    /// # Errors
    /// The value is not of the flag's kind.
    pub fn set(&mut self, flag: &'static Flag, text: &str) -> Result<(), kind::Error> {
        self.put(flag, flag.kind.read(text)?);
        Ok(())
    }

    pub(super) fn put(&mut self, flag: &'static Flag, value: Value) {
        // No URL at all says nothing; so in etcd.
        if value != Value::Urls(Vec::new()) {
            self.given.insert(flag.name, value);
        }
    }

    /// Somebody said something of this flag.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Takes what was said under former names as said under the present ones, and refuses what is not offered.
    ///
    /// # Errors
    /// A flag was given under both its names, or asks for what there is not.
    pub fn settle(&mut self) -> Result<(), Error> {
        let mut gates = self.text("feature-gates");
        for flag in flags::settings() {
            let Some(value) = self.given.get(flag.name).cloned() else { continue };
            match flag.meaning {
                Meaning::Obeyed => {}
                Meaning::Accepted(reason) => self.notes.push(Note::NoEffect(flag.shown(), reason)),
                Meaning::Refused(_) if Ok(&value) == flag.kind.read(flag.default).as_ref() => {}
                Meaning::Refused(reason) => return Err(Error::Refused(flag.name, reason)),
                Meaning::Former(now) => self.rename(flag, now, value)?,
                Meaning::FormerGate(feature) => {
                    if gates.split(',').any(|setting| setting.trim().split('=').next() == Some(feature)) {
                        return Err(Error::FlagAndGate { flag: flag.name, feature });
                    }
                    let on = value == Value::Bool(true);
                    gates.push_str(&format!(",{feature}={on}"));
                    self.notes.push(Note::Deprecated(flag.name, format!("--feature-gates={feature}={on}")));
                }
            }
        }
        self.given.insert("feature-gates", Value::Text(gates));
        Ok(())
    }

    fn rename(&mut self, flag: &'static Flag, now: &'static str, value: Value) -> Result<(), Error> {
        if self.is_given(now) {
            return Err(Error::BothNames(flag.name, now));
        }
        self.notes.push(Note::Deprecated(flag.name, format!("--{now}")));
        if let Some(Meaning::Accepted(reason)) = flags::find(now).map(|flag| flag.meaning) {
            self.notes.push(Note::NoEffect(format!("--{now}"), reason));
        }
        self.given.insert(now, value);
        Ok(())
    }

    /// What holds for a flag. The table has all names and defaults; its tests see to it.
    fn value(&self, name: &'static str) -> Option<Value> {
        #[cfg(test)]
        self.asked.borrow_mut().insert(name);
        let default = || flags::settings().find(|flag| flag.name == name).and_then(|flag| flag.kind.read(flag.default).ok());
        let value = self.given.get(name).cloned().or_else(default);
        debug_assert!(value.is_some(), "there is no flag --{name}");
        value
    }

    pub(super) fn text(&self, name: &'static str) -> String {
        match self.value(name) {
            Some(Value::Text(text)) => text,
            _ => String::new(),
        }
    }

    /// None when empty.
    pub(super) fn some_text(&self, name: &'static str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    pub(super) fn path(&self, name: &'static str) -> Option<PathBuf> {
        self.some_text(name).map(PathBuf::from)
    }

    pub(super) fn on(&self, name: &'static str) -> bool {
        self.value(name) == Some(Value::Bool(true))
    }

    /// A number from 0 on, at most the largest of its type.
    pub(super) fn number<T: TryFrom<u64> + Bounded>(&self, name: &'static str) -> T {
        match self.value(name) {
            Some(Value::Unsigned(number)) => T::try_from(number).unwrap_or(T::LARGEST),
            _ => T::LARGEST,
        }
    }

    pub(super) fn signed(&self, name: &'static str) -> i64 {
        match self.value(name) {
            Some(Value::Signed(number)) => number,
            _ => 0,
        }
    }

    pub(super) fn time(&self, name: &'static str) -> Duration {
        match self.value(name) {
            Some(Value::Time(time)) => time,
            _ => Duration::ZERO,
        }
    }

    pub(super) fn urls(&self, name: &'static str) -> Vec<Url> {
        match self.value(name) {
            Some(Value::Urls(urls)) => urls,
            _ => Vec::new(),
        }
    }

    pub(super) fn words(&self, name: &'static str) -> Vec<String> {
        match self.value(name) {
            Some(Value::Words(words)) => words,
            _ => Vec::new(),
        }
    }
}

/// A number type with a largest value.
pub(super) trait Bounded {
    const LARGEST: Self;
}

macro_rules! bounded {
    ($($number:ty)*) => { $(impl Bounded for $number { const LARGEST: Self = <$number>::MAX; })* };
}

bounded! { u32 u64 usize }

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(flags: &[(&str, &str)]) -> Result<Settings, Error> {
        let mut settings = Settings::default();
        for (name, text) in flags {
            settings.set(flags::find(name).unwrap(), text).unwrap();
        }
        settings.settle().map(|()| settings)
    }

    #[test]
    fn former_names_are_taken_and_told_of() {
        let settings = settled(&[("experimental-corrupt-check-time", "5m"), ("experimental-memory-mlock", "true")]).unwrap();
        assert_eq!(settings.time("corrupt-check-time"), Duration::from_secs(300));
        assert!(settings.notes.contains(&Note::Deprecated("experimental-corrupt-check-time", "--corrupt-check-time".into())));
        assert!(settings.notes.iter().any(|note| matches!(note, Note::NoEffect(flag, _) if flag == "--memory-mlock")));
    }

    #[test]
    fn both_names_at_once_are_refused() {
        let error = settled(&[("experimental-corrupt-check-time", "5m"), ("corrupt-check-time", "5m")]).unwrap_err();
        assert!(error.to_string().contains("please use --corrupt-check-time only"), "{error}");
        let both = [("experimental-initial-corrupt-check", "true"), ("feature-gates", "InitialCorruptCheck=true")];
        let error = settled(&both).unwrap_err();
        assert!(error.to_string().starts_with("cannot specify both flags: --experimental-initial-corrupt-check"), "{error}");
    }

    #[test]
    fn what_has_no_meaning_here_is_accepted_with_a_reason() {
        let settings = settled(&[("max-wals", "0")]).unwrap();
        assert!(matches!(&settings.notes[..], [Note::NoEffect(flag, _)] if flag == "--max-wals"));
    }

    #[test]
    fn what_is_not_offered_is_refused_unless_it_is_the_case_anyway() {
        assert!(settled(&[("discovery-srv", "")]).is_ok());
        let error = settled(&[("discovery-srv", "example.org")]).unwrap_err();
        assert!(error.to_string().starts_with("--discovery-srv: there is no discovery service"), "{error}");
    }
}

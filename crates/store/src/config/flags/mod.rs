//! Every flag of etcd 3.6 (`etcd --help`, `server/embed/config.go`), in one table: what kind of value it takes, what it is
//! when nobody says, and what it means here. Help, environment names, configuration file and errors all follow from it.

mod clustering;
mod former;
mod member;
mod operation;
mod security;

use super::kind::Kind;

/// What a flag does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The same as in etcd.
    Obeyed,
    /// Nothing, for this reason, which is logged when it is given.
    Accepted(&'static str),
    /// It would change what the member does, and is not offered: an error, unless it says what is the case anyway.
    Refused(&'static str),
    /// It is an earlier name of another flag.
    Former(&'static str),
    /// It is an earlier name of a feature.
    FormerGate(&'static str),
}

/// One flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Without dashes.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Its value when nobody says.
    pub default: &'static str,
    /// For `--help`.
    pub help: &'static str,
    /// What it does.
    pub meaning: Meaning,
}

/// A heading of `--help`, and the flags under it.
pub type Group = (&'static str, &'static [Flag]);

/// All flags.
pub const GROUPS: [Group; 10] = [
    ("Member", member::FLAGS),
    ("Clustering", clustering::FLAGS),
    ("Security", security::FLAGS),
    ("Auth", security::AUTH),
    ("Profiling and Monitoring", operation::MONITORING),
    ("Logging", operation::LOGGING),
    ("Upkeep", operation::UPKEEP),
    ("Unsafe", operation::UNSAFE),
    ("Former names", former::NAMES),
    ("Without effect since long", former::GONE),
];

/// All flags, in the order of `--help`.
pub fn all() -> impl Iterator<Item = &'static Flag> {
    GROUPS.iter().flat_map(|(_, flags)| *flags)
}

/// What can be said in a configuration file only, under these names.
pub const IN_FILES: &[Flag] = security::IN_FILES;

/// All flags, and what there is in configuration files besides.
pub fn settings() -> impl Iterator<Item = &'static Flag> {
    all().chain(IN_FILES)
}

/// The flag of a name.
pub fn find(name: &str) -> Option<&'static Flag> {
    all().find(|flag| flag.name == name)
}

impl Flag {
    /// How it is called where it is told of.
    pub fn shown(&self) -> String {
        let in_files = IN_FILES.iter().any(|flag| flag.name == self.name);
        if in_files { self.name.to_owned() } else { format!("--{}", self.name) }
    }

    /// The variable that stands for it.
    pub fn variable(&self) -> String {
        format!("ETCD_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }
}

const fn flag(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Flag {
    Flag { name, kind, default, help, meaning: Meaning::Obeyed }
}

const fn accepted(name: &'static str, kind: Kind, default: &'static str, reason: &'static str) -> Flag {
    Flag { name, kind, default, help: "", meaning: Meaning::Accepted(reason) }
}

const fn refused(name: &'static str, kind: Kind, default: &'static str, reason: &'static str) -> Flag {
    Flag { name, kind, default, help: "", meaning: Meaning::Refused(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_defaults_are_values() {
        let mut names = BTreeSet::new();
        for flag in settings() {
            assert!(names.insert(flag.name), "--{} is there twice", flag.name);
            assert!(flag.kind.read(flag.default).is_ok(), "--{} has no default", flag.name);
        }
    }

    #[test]
    fn former_names_lead_to_flags_that_are_obeyed_or_explained() {
        for flag in all() {
            if let Meaning::Former(name) = flag.meaning {
                let now = find(name).unwrap();
                assert!(!matches!(now.meaning, Meaning::Former(_) | Meaning::FormerGate(_)), "{}", flag.name);
                assert_eq!(now.kind, flag.kind, "{}", flag.name);
            }
        }
    }
}

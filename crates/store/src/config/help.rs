//! `--help`.

use super::flags::{self, Flag, Meaning};

/// What the program is called with.
pub const USAGE: &str = "Usage:

  store [flags]
    Run a member.

  store --version
    Print the version.

  store -h | --help
    Print all flags.

  store --config-file FILE
    Run a member as the file says. Flags and environment variables do not count then.

  store snapshot restore | status FILE
    Work on a snapshot file; see store snapshot --help.
";

/// All flags, under their headings.
pub fn all_flags() -> String {
    let mut text = String::new();
    for (heading, flags) in flags::GROUPS {
        text.push_str(&format!("\n{heading}:\n"));
        flags.iter().for_each(|flag| text.push_str(&entry(flag)));
    }
    text
}

fn entry(flag: &Flag) -> String {
    let said = match flag.meaning {
        Meaning::Obeyed => flag.help.to_owned(),
        Meaning::Accepted(reason) => format!("Accepted without effect: {reason}."),
        Meaning::Refused(reason) => format!("Not offered: {reason}."),
        Meaning::Former(now) => format!("Now --{now}."),
        Meaning::FormerGate(feature) => format!("Now --feature-gates={feature}=true|false."),
    };
    format!("  --{} '{}'\n    {said}\n", flag.name, flag.default)
}

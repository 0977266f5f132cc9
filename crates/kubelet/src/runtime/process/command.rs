//! Commands of a container: in its environment, directory and user, and in a process group of their own.

use std::{
    collections::BTreeMap,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::shim::Instructions;

/// The command `argv` makes in the container.
pub(super) fn command(container: &Instructions, argv: &[String]) -> io::Result<Command> {
    let (program, args) = split(argv)?;
    let mut command = Command::new(find(program, &container.env));
    command.args(args).env_clear().envs(&container.env).current_dir(&container.directory).process_group(0);
    if let Some(group) = container.group {
        command.gid(group);
    }
    if let Some(user) = container.user {
        command.uid(user);
    }
    Ok(command)
}

/// Program and arguments.
pub(super) fn split(argv: &[String]) -> io::Result<(&String, &[String])> {
    argv.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))
}

/// The program's path, looked up in the container's own `PATH`.
pub(super) fn find(program: &str, env: &BTreeMap<String, String>) -> PathBuf {
    if program.contains('/') {
        return PathBuf::from(program);
    }
    let path = env.get("PATH").cloned().unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|p| p.is_file());
    found.unwrap_or_else(|| PathBuf::from(program))
}

/// Why a command could not be started, in runc's words, which users know.
pub(super) fn start_error(argv: &[String], directory: &Path, error: &io::Error) -> String {
    let program = argv.first().map(String::as_str).unwrap_or_default();
    let why = match error.kind() {
        io::ErrorKind::NotFound if !directory.is_dir() => {
            return format!("chdir to cwd ({directory:?}) set in config.json failed: no such file or directory");
        }
        io::ErrorKind::NotFound if program.contains('/') => format!("stat {program}: no such file or directory"),
        io::ErrorKind::NotFound => "executable file not found in $PATH".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    };
    format!("unable to start container process: exec: {program:?}: {why}")
}

/// What the terminal library says, as the error of input and output that it mostly is.
pub(super) fn plain(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

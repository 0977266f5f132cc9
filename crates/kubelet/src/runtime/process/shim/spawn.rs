//! Starts the command: with pipes, or on a terminal of its own.

use std::{
    io::{self, Read},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
};

use pty_process::blocking::{self as pty, Pty};

use super::{
    super::{command, frames::Kind},
    Instructions,
    input::Input,
};

/// The running command and the ends of its streams.
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) input: Input,
    pub(super) streams: Vec<(Kind, Box<dyn Read + Send>)>,
}

/// Starts the command.
pub(super) fn spawn(todo: &Instructions) -> io::Result<Running> {
    if todo.tty { on_terminal(todo) } else { with_pipes(todo) }
}

fn with_pipes(todo: &Instructions) -> io::Result<Running> {
    let mut command = command::command(todo, &todo.argv)?;
    command.stdin(if todo.stdin { Stdio::piped() } else { Stdio::null() }).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let input = child.stdin.take().map_or(Input::None, |pipe| Input::Pipe(Mutex::new(Some(pipe))));
    let mut streams: Vec<(Kind, Box<dyn Read + Send>)> = vec![];
    streams.extend(child.stdout.take().map(|stream| (Kind::Stdout, Box::new(stream) as _)));
    streams.extend(child.stderr.take().map(|stream| (Kind::Stderr, Box::new(stream) as _)));
    Ok(Running { child, input, streams })
}

fn on_terminal(todo: &Instructions) -> io::Result<Running> {
    let (program, args) = command::split(&todo.argv)?;
    let (terminal, other_side) = pty::open().map_err(command::plain)?;
    let command = pty::Command::new(command::find(program, &todo.env)).args(args).env_clear().envs(&todo.env);
    let mut command = command.current_dir(&todo.directory);
    if let Some(group) = todo.group {
        command = command.gid(group);
    }
    if let Some(user) = todo.user {
        command = command.uid(user);
    }
    let child = command.spawn(other_side).map_err(command::plain)?;
    let terminal = Arc::new(terminal);
    let streams: Vec<(Kind, Box<dyn Read + Send>)> = vec![(Kind::Stdout, Box::new(Reader(terminal.clone())))];
    let input = if todo.stdin { Input::Terminal(terminal) } else { Input::None };
    Ok(Running { child, input, streams })
}

/// What comes out of the terminal.
struct Reader(Arc<Pty>);

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

//! What the command reads, if it reads anything: a pipe or a terminal.

use std::{
    io::Write,
    process::ChildStdin,
    sync::{Arc, Mutex, PoisonError},
};

use pty_process::{Size, blocking::Pty};

/// The command's input.
pub(super) enum Input {
    /// Nobody can write.
    None,
    /// A pipe, until it has been ended.
    Pipe(Mutex<Option<ChildStdin>>),
    /// A terminal; never ends.
    Terminal(Arc<Pty>),
}

impl Input {
    /// Writes all of it; what the command no longer reads is lost.
    pub(super) fn write(&self, bytes: &[u8]) {
        let _ = match self {
            Self::None => Ok(()),
            Self::Pipe(pipe) => match pipe.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                Some(pipe) => pipe.write_all(bytes).and_then(|()| pipe.flush()),
                None => Ok(()),
            },
            Self::Terminal(terminal) => (&**terminal).write_all(bytes),
        };
    }

    /// Lets the command read the end of its input.
    pub(super) fn end(&self) {
        if let Self::Pipe(pipe) = self {
            pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Sets the terminal's size.
    pub(super) fn resize(&self, columns: u16, rows: u16) {
        if let Self::Terminal(terminal) = self {
            let _ = terminal.resize(Size::new(rows, columns));
        }
    }
}

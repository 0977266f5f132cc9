//! One kubectl, with a kubeconfig and a namespace of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use tests::{Admin, Output, run, run_with_input};

/// What is typed, and a part of what is answered.
pub(crate) type Step<'a> = (&'a str, &'a str);

pub(crate) struct Session {
    kubectl: PathBuf,
    directory: TempDir,
}

impl Session {
    /// Makes a namespace and points a copy of the admin's kubeconfig to it.
    pub(crate) fn new(cluster: &Admin, kubectl: PathBuf, namespace: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::copy(cluster.kubeconfig(), directory.path().join("config")).unwrap();
        let session = Self { kubectl, directory };
        session.does(&[
            (&format!("create namespace {namespace}"), &format!("namespace/{namespace} created")),
            (&format!("config set-context --current --namespace={namespace}"), "modified"),
        ]);
        session
    }

    /// A place for files.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A kubectl with these arguments that has yet to be started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.env("KUBECONFIG", self.directory().join("config")).env("KUBECACHEDIR", self.directory().join("cache"));
        command.current_dir(self.directory()).args(args);
        command
    }

    /// Runs a line as typed: words, no quotes.
    pub(crate) fn typed(&self, line: &str) -> Output {
        run(&mut self.command(&line.split(' ').collect::<Vec<_>>()))
    }

    /// The same with text on standard input.
    pub(crate) fn fed(&self, line: &str, input: &str) -> Output {
        run_with_input(&mut self.command(&line.split(' ').collect::<Vec<_>>()), input)
    }

    /// Takes steps in order: each succeeds and says what is expected.
    pub(crate) fn does(&self, steps: &[Step<'_>]) {
        for (line, expected) in steps {
            let output = self.typed(line);
            assert!(output.code == 0 && output.out.contains(expected), "kubectl {line}: {expected:?} expected: {output:#?}");
        }
    }

    /// A step that fails and says why.
    pub(crate) fn fails(&self, line: &str, expected: &str) {
        let output = self.typed(line);
        let said = format!("{}{}", output.err, output.out);
        assert!(output.code != 0 && said.contains(expected), "kubectl {line}: {expected:?} expected: {output:#?}");
    }
}

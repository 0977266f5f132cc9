//! How a command ended, as the last words of a session say it.

use serde_json::{Value, json};

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With code 0.
    Success,
    /// With another code; `cause` says so in words.
    Exited {
        /// Its exit code.
        code: u8,
        /// e.g. `exit status 3`.
        cause: String,
    },
    /// It could not be run, or followed to its end.
    Failed(String),
    /// A whole `metav1.Status`, as another server gave it.
    Status(Value),
}

impl Outcome {
    /// The outcome of a command that ended with `code`.
    pub fn exited(code: u8, cause: impl Into<String>) -> Self {
        if code == 0 { Self::Success } else { Self::Exited { code, cause: cause.into() } }
    }

    /// As a `metav1.Status`: what the error stream carries from version 4 on.
    pub fn status(&self) -> Value {
        match self {
            Self::Success => json!({"metadata": {}, "status": "Success"}),
            Self::Exited { code, .. } => json!({
                "metadata": {},
                "status": "Failure",
                "message": self.text(),
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Self::Failed(cause) => json!({
                "metadata": {},
                "status": "Failure",
                "message": self.text(),
                "reason": "InternalError",
                "details": {"causes": [{"message": cause}]},
                "code": 500,
            }),
            Self::Status(status) => status.clone(),
        }
    }

    /// In words: what older versions carry, of failures only.
    pub fn text(&self) -> String {
        match self {
            Self::Success => String::new(),
            Self::Exited { cause, .. } => format!("command terminated with non-zero exit code: {cause}"),
            Self::Failed(cause) => format!("Internal error occurred: {cause}"),
            Self::Status(status) => status["message"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Reads what a server of version 4 said at the end of a session, as upstream's client does.
    pub fn read(said: &[u8]) -> Self {
        let broken = |why: &str| Self::Failed(format!("error stream protocol error: {why}"));
        if said.is_empty() {
            return Self::Success;
        }
        let status: Value = match serde_json::from_slice(said) {
            Ok(status) => status,
            Err(error) => return broken(&format!("{error} in {:?}", String::from_utf8_lossy(said))),
        };
        match (status["status"].as_str(), status["reason"].as_str()) {
            (Some("Success"), _) => Self::Success,
            (Some("Failure"), Some("NonZeroExitCode")) => exit_code(&status).unwrap_or_else(|why| broken(&why)),
            (Some("Failure"), _) => Self::Failed(status["message"].as_str().unwrap_or_default().to_owned()),
            _ => broken("unknown error"),
        }
    }
}

fn exit_code(status: &Value) -> Result<Outcome, String> {
    if !status["details"].is_object() {
        return Err("details must be set".into());
    }
    let causes = status["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(cause) = causes.iter().find(|cause| cause["reason"] == "ExitCode") else {
        return Err("no ExitCode cause given".into());
    };
    let text = cause["message"].as_str().unwrap_or_default();
    let code = text.parse().map_err(|_| format!("invalid exit code value {text:?}"))?;
    Ok(Outcome::Exited { code, cause: format!("command terminated with exit code {code}") })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(status: &Value) -> Outcome {
        Outcome::read(status.to_string().as_bytes())
    }

    #[test]
    fn an_exit_code_survives_the_way() {
        let status = Outcome::exited(3, "exit status 3").status();
        assert_eq!(status["message"], "command terminated with non-zero exit code: exit status 3");
        assert_eq!(read(&status), Outcome::exited(3, "command terminated with exit code 3"));
        assert_eq!(Outcome::exited(0, "never seen"), Outcome::Success);
    }

    #[test]
    fn a_failure_keeps_its_text() {
        let status = Outcome::Failed("no such container".into()).status();
        assert_eq!((&status["message"], &status["code"]), (&json!("Internal error occurred: no such container"), &json!(500)));
        assert_eq!(read(&status), Outcome::Failed("Internal error occurred: no such container".into()));
    }

    #[test]
    fn silence_and_success_are_success() {
        assert_eq!(Outcome::read(b""), Outcome::Success);
        assert_eq!(read(&Outcome::Success.status()), Outcome::Success);
    }

    #[test]
    fn what_is_no_status_is_named() {
        let failed = |said: &[u8]| match Outcome::read(said) {
            Outcome::Failed(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(failed(b"{}"), "error stream protocol error: unknown error");
        assert!(failed(b"oops").ends_with(" in \"oops\""), "{}", failed(b"oops"));
        let without = br#"{"status":"Failure","reason":"NonZeroExitCode","details":{}}"#;
        assert_eq!(failed(without), "error stream protocol error: no ExitCode cause given");
        let large = br#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"256"}]}}"#;
        assert_eq!(failed(large), "error stream protocol error: invalid exit code value \"256\"");
    }

    proptest! {
        #[test]
        fn nothing_said_makes_the_reader_panic(said: Vec<u8>) {
            let _ = Outcome::read(&said);
        }

        #[test]
        fn no_status_makes_the_reader_panic(
            status in prop::option::of("Success|Failure|x"),
            reason in prop::option::of("NonZeroExitCode|x"),
            details in prop::sample::select(vec!["null", "{}", "[]", "{\"causes\":{}}", "{\"causes\":[1,{\"reason\":\"ExitCode\"}]}"]),
        ) {
            let details: Value = serde_json::from_str(details).unwrap();
            let _ = read(&json!({"status": status, "reason": reason, "details": details}));
        }
    }
}

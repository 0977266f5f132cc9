//! Log lines in the form of etcd's logger, zap: one JSON object each, with `level`, `ts`, `caller` and `msg` first.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The form.
pub(crate) struct Zap;

impl<S, N> FormatEvent<S, N> for Zap
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = line(event, &crate::clock::now(), fields);
        writeln!(writer, "{line}")
    }
}

fn line(event: &Event<'_>, now: &jiff::Timestamp, fields: Fields) -> String {
    let meta = event.metadata();
    let level = match *meta.level() {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG | Level::TRACE => "debug",
    };
    let caller = format!("{}:{}", short(meta.file().unwrap_or(meta.target())), meta.line().unwrap_or_default());
    let first =
        [("level", level.into()), ("ts", now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()), ("caller", caller), ("msg", fields.message)];
    let first = first.map(|(name, value)| format!("{}:{}", Value::from(name), Value::from(value)));
    let rest = fields.others.into_iter().map(|(name, value)| format!("{}:{value}", Value::from(name)));
    format!("{{{}}}", first.into_iter().chain(rest).collect::<Vec<_>>().join(","))
}

/// The last directory of a path, and the file.
fn short(path: &str) -> &str {
    let cut = path.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    &path[cut..]
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => drop(self.others.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let causes: Vec<_> = std::iter::successors(Some(value), |error| error.source()).map(ToString::to_string).collect();
        self.put(field, causes.join(": ").into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_an_object_with_what_zap_has_first() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().event_format(Zap).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let cause = std::io::Error::other("no room");
            tracing::warn!(count = 3, name = "a \"b\"", error = &cause as &dyn std::error::Error, "cannot go on");
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        assert!(text.starts_with(r#"{"level":"warn","ts":""#) && text.ends_with("}\n"), "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["msg"], &line["count"], &line["name"]), (&"cannot go on".into(), &3.into(), &"a \"b\"".into()));
        assert_eq!(line["error"], "no room");
        assert!(line["caller"].as_str().unwrap().starts_with("src/zap.rs:"), "{line}");
        assert!(line["ts"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
    }
}

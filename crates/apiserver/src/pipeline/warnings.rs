//! Collects warnings and sends each as a `Warning: 299 - "…"` header.

use axum::{extract::Request, middleware::Next, response::Response};
use http::{HeaderValue, header};

use crate::request::Warnings;

/// All warnings together, in bytes, beyond which the rest is left out.
const MAX_TOTAL: usize = 4 * 1024;
/// One warning is cut to this many characters when there are too many of them.
const MAX_EACH: usize = 256;

pub(super) async fn layer(mut request: Request, next: Next) -> Response {
    let warnings = Warnings::default();
    request.extensions_mut().insert(warnings.clone());
    let mut response = next.run(request).await;
    for text in fitting(warnings.take()) {
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - {}", quoted(&text)).as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// Warnings within the size limits: all as they are, else each cut, else fewer.
fn fitting(texts: Vec<String>) -> Vec<String> {
    if texts.iter().map(String::len).sum::<usize>() <= MAX_TOTAL {
        return texts;
    }
    let mut left = MAX_TOTAL;
    let cut = texts.into_iter().map(|t| t.chars().take(MAX_EACH).collect::<String>());
    cut.take_while(|t| {
        let fits = t.len() <= left;
        left = left.saturating_sub(t.len());
        fits
    })
    .collect()
}

/// A quoted string of HTTP; what a header cannot hold is left out.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' | '\t' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_escaped() {
        assert_eq!(quoted("unknown field \"x\""), r#""unknown field \"x\"""#);
    }

    #[test]
    fn too_many_warnings_are_cut_to_fit() {
        let kept = fitting(vec!["x".repeat(1000); 40]);
        assert_eq!((kept.len(), kept[0].len()), (16, 256));
    }
}

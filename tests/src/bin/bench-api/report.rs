//! What is printed: one row for each thing measured, and at the end a table.

use ::tests::bench::{Measured, Usage};

/// What was measured.
pub(crate) struct Row {
    /// Of what.
    pub(crate) case: String,
    pub(crate) measured: Measured,
    /// What the server has used by the end of it.
    pub(crate) usage: Usage,
    /// What else there is to say.
    pub(crate) note: String,
}

type Column = (&'static str, usize, fn(&Row) -> f64);

/// Heading, digits after the point, value; what is zero was not measured.
const COLUMNS: [Column; 7] = [
    ("per s", 1, |row| over(row.measured.latencies.count() as f64, row.measured.time.as_secs_f64())),
    ("p50 ms", 2, |row| row.millis(500)),
    ("p99 ms", 2, |row| row.millis(990)),
    ("CPU µs each", 1, |row| over(row.cpu() * 1e6, row.measured.latencies.count() as f64)),
    ("RSS MiB", 1, |row| mebibytes(row.usage.resident)),
    ("peak MiB", 1, |row| mebibytes(row.usage.peak)),
    ("errors", 0, |row| row.measured.errors as f64),
];

impl Row {
    fn millis(&self, permille: u64) -> f64 {
        self.measured.latencies.permille(permille).as_secs_f64() * 1e3
    }

    fn cpu(&self) -> f64 {
        self.measured.cpu.iter().map(std::time::Duration::as_secs_f64).sum()
    }

    fn cells(&self) -> impl Iterator<Item = String> {
        COLUMNS.iter().map(|(_, digits, value)| match value(self) {
            0.0 => "–".to_owned(),
            value => format!("{value:.digits$}"),
        })
    }
}

fn over(value: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { value / divisor } else { 0.0 }
}

/// Bytes as MiB.
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The line of one row, as it is printed at once.
pub(crate) fn line(row: &Row) -> String {
    let told = COLUMNS.iter().zip(row.cells()).filter(|(_, cell)| cell != "–").map(|((heading, ..), cell)| format!("{heading} {cell}"));
    let note = Some(row.note.clone()).filter(|note| !note.is_empty());
    format!("  {}: {}", row.case, told.chain(note).collect::<Vec<_>>().join(", "))
}

/// All of it as a Markdown table.
pub(crate) fn table(rows: &[Row]) -> String {
    let headings: Vec<_> = COLUMNS.iter().map(|(heading, ..)| *heading).collect();
    let mut out = format!("| case | {} | |\n|---|{}---|\n", headings.join(" | "), "---|".repeat(COLUMNS.len()));
    for row in rows {
        out += &format!("| {} | {} | {} |\n", row.case, row.cells().collect::<Vec<_>>().join(" | "), row.note);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ::tests::bench::Histogram;

    #[test]
    fn a_row_has_what_was_measured_and_dashes_for_the_rest() {
        let latencies = Histogram::of(&[Duration::from_millis(2); 400]);
        let measured = Measured { time: Duration::from_secs(2), latencies, errors: 0, cpu: vec![Duration::from_millis(10)] };
        let usage = Usage { resident: 3 << 20, ..Usage::default() };
        let row = Row { case: "get, 1 client".into(), measured, usage, note: "fine".into() };
        assert_eq!(line(&row), "  get, 1 client: per s 200.0, p50 ms 2.00, p99 ms 2.00, CPU µs each 25.0, RSS MiB 3.0, fine");
        assert_eq!(table(&[row]).lines().last(), Some("| get, 1 client | 200.0 | 2.00 | 2.00 | 25.0 | 3.0 | – | – | fine |"));
    }
}

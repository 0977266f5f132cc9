//! What is printed: one row a case and program, medians of the runs, then the ratio of the first program to the second.

use std::time::Duration;

use crate::load::Measured;

/// One case of one program in one run.
pub(crate) struct Row {
    pub(crate) case: &'static str,
    pub(crate) members: usize,
    pub(crate) program: String,
    pub(crate) numbers: Numbers,
}

/// What is told of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Numbers {
    per_second: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    /// Microseconds of processor time for each thing done, of all members.
    cpu_each: f64,
    /// Seconds of processor time of each member while it was measured, the most first.
    cpu: Vec<f64>,
    /// MiB of each member, the most first.
    resident: Vec<f64>,
    /// MiB of each member, the most first.
    disk: Vec<f64>,
    errors: f64,
}

/// One value, or one of each member.
type Column = (&'static str, usize, fn(&Numbers) -> Vec<f64>);

/// Heading, digits after the point, value; milliseconds, microseconds, seconds and MiB.
const COLUMNS: [Column; 9] = [
    ("per s", 0, |numbers| vec![numbers.per_second]),
    ("p50 ms", 2, |numbers| vec![numbers.p50]),
    ("p99 ms", 2, |numbers| vec![numbers.p99]),
    ("p99.9 ms", 2, |numbers| vec![numbers.p999]),
    ("CPU µs each", 1, |numbers| vec![numbers.cpu_each]),
    ("CPU s", 2, |numbers| numbers.cpu.clone()),
    ("RSS MiB", 1, |numbers| numbers.resident.clone()),
    ("disk MiB", 1, |numbers| numbers.disk.clone()),
    ("errors", 0, |numbers| vec![numbers.errors]),
];

impl Numbers {
    /// Of what was measured, and the bytes in memory and on disk of each member afterwards.
    pub(crate) fn new(measured: &Measured, resident: &[u64], disk: &[u64]) -> Self {
        let (seconds, done) = (measured.time.as_secs_f64(), measured.latencies.count() as f64);
        let millis = |permille| measured.latencies.permille(permille).as_secs_f64() * 1e3;
        let mebibytes = |bytes: &[u64]| falling(bytes.iter().map(|bytes| *bytes as f64 / f64::from(1 << 20)));
        let cpu: Duration = measured.cpu.iter().sum();
        let over = |value: f64, divisor: f64| if divisor > 0.0 { value / divisor } else { 0.0 };
        Self {
            per_second: over(done, seconds),
            p50: millis(500),
            p99: millis(990),
            p999: millis(999),
            cpu_each: over(cpu.as_secs_f64() * 1e6, done),
            cpu: falling(measured.cpu.iter().map(Duration::as_secs_f64)),
            resident: mebibytes(resident),
            disk: mebibytes(disk),
            errors: measured.errors as f64,
        }
    }

    /// Column for column, member for member.
    pub(crate) fn median(all: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| middle(all.iter().map(value));
        let of_each = |values: fn(&Self) -> &Vec<f64>| {
            let members = all.iter().map(|numbers| values(numbers).len()).min().unwrap_or_default();
            (0..members).map(|member| middle(all.iter().map(|numbers| values(numbers)[member]))).collect()
        };
        Self {
            per_second: of(|numbers| numbers.per_second),
            p50: of(|numbers| numbers.p50),
            p99: of(|numbers| numbers.p99),
            p999: of(|numbers| numbers.p999),
            cpu_each: of(|numbers| numbers.cpu_each),
            cpu: of_each(|numbers| &numbers.cpu),
            resident: of_each(|numbers| &numbers.resident),
            disk: of_each(|numbers| &numbers.disk),
            errors: of(|numbers| numbers.errors),
        }
    }
}

/// The largest first: who leads is another one in each run.
fn falling(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let values = falling(values);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn written(values: &[f64], digits: usize) -> String {
    let values: Vec<_> = values.iter().map(|value| format!("{value:.digits$}")).collect();
    if values.is_empty() { "–".into() } else { values.join(" + ") }
}

/// The line of one run, as it is printed at once.
pub(crate) fn line(row: &Row) -> String {
    let cells = COLUMNS.map(|(heading, digits, value)| format!("{heading} {}", written(&value(&row.numbers), digits)));
    format!("  {} on {}, {}: {}", row.case, row.members, row.program, cells.join(", "))
}

/// All of it as a Markdown table; `programs` in the order in which they are compared.
pub(crate) fn table(rows: &[Row], programs: &[String]) -> String {
    let headings: Vec<_> = COLUMNS.iter().map(|(heading, ..)| *heading).collect();
    let mut out = format!("| case | members | program | {} |\n|---|---|---|{}\n", headings.join(" | "), "---|".repeat(COLUMNS.len()));
    let mut groups: Vec<(&str, usize)> = rows.iter().map(|row| (row.case, row.members)).collect();
    groups.dedup();
    let mut seen = Vec::new();
    for group in groups {
        if seen.contains(&group) {
            continue;
        }
        seen.push(group);
        let of = |program: &String| {
            let runs = rows.iter().filter(|row| (row.case, row.members) == group && row.program == *program);
            let numbers: Vec<_> = runs.map(|row| row.numbers.clone()).collect();
            (!numbers.is_empty()).then(|| Numbers::median(&numbers))
        };
        let medians: Vec<_> = programs.iter().filter_map(|program| Some((program, of(program)?))).collect();
        for (program, numbers) in &medians {
            out += &cells(group, program, |(_, digits, value)| written(&value(numbers), *digits));
        }
        if let [(_, first), (_, second)] = &medians[..] {
            out += &cells(group, "ratio", |(_, _, value)| ratio(value(first).iter().sum(), value(second).iter().sum()));
        }
    }
    out
}

fn cells((case, members): (&str, usize), program: &str, cell: impl Fn(&Column) -> String) -> String {
    let cells: Vec<_> = COLUMNS.iter().map(cell).collect();
    format!("| {case} | {members} | {program} | {} |\n", cells.join(" | "))
}

fn ratio(first: f64, second: f64) -> String {
    if second > 0.0 { format!("{:.2}", first / second) } else { "–".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Histogram;

    fn numbers(count: usize, cpu: u64) -> Numbers {
        let latencies = Histogram::of(&vec![Duration::from_millis(2); count]);
        let cpu = vec![Duration::from_millis(cpu), Duration::ZERO];
        Numbers::new(&Measured { time: Duration::from_secs(2), latencies, errors: 0, cpu }, &[1 << 20, 3 << 20], &[0])
    }

    fn row(program: &str, numbers: Numbers) -> Row {
        Row { case: "put-1", members: 3, program: program.into(), numbers }
    }

    #[test]
    fn each_case_has_the_medians_of_both_programs_and_their_ratio() {
        let rows = [
            row("ours", numbers(400, 10)),
            row("etcd", numbers(100, 10)),
            row("ours", numbers(200, 10)),
            row("etcd", numbers(100, 10)),
            row("ours", numbers(900, 10)),
        ];
        let table = table(&rows, &["ours".into(), "etcd".into()]);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 5, "{table}");
        assert!(lines[2].starts_with("| put-1 | 3 | ours | 200 | 2.00 | 2.00 | 2.00 | 25.0 | 0.01 + 0.00 | 3.0 + 1.0 |"), "{table}");
        assert!(lines[3].starts_with("| put-1 | 3 | etcd | 50 |"), "{table}");
        assert!(lines[4].starts_with("| put-1 | 3 | ratio | 4.00 | 1.00 |") && lines[4].ends_with("| – | – |"), "{table}");
    }

    #[test]
    fn a_case_in_which_nothing_is_done_still_has_its_processor_time() {
        let idle = numbers(0, 100);
        assert_eq!((idle.per_second, idle.cpu_each, idle.cpu), (0.0, 0.0, vec![0.1, 0.0]));
    }
}

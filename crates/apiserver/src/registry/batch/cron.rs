//! Checks cron expressions as the parser of the cron job controller reads them.

/// Fields of an expression: name, lowest and highest value, names for values from the lowest on.
const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day of month", 1, 31, &[]),
    ("month", 1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    ("day of week", 0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// What is wrong with a schedule, if anything.
pub(crate) fn problem(schedule: &str) -> Option<String> {
    let text = match schedule.strip_prefix("TZ=").or(schedule.strip_prefix("CRON_TZ=")) {
        Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest.trim()),
        None => schedule,
    };
    if text.is_empty() {
        return Some("empty spec string".into());
    }
    if text.starts_with('@') {
        let known = DESCRIPTORS.contains(&text) || text.strip_prefix("@every ").is_some_and(is_duration);
        return (!known).then(|| format!("unrecognized descriptor: {text}"));
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    }
    parts.iter().zip(FIELDS).find_map(|(part, field)| part.split(',').find_map(|range| range_problem(range, field)))
}

fn is_duration(text: &str) -> bool {
    let digits = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').count();
    digits > 0 && text[digits..].chars().all(|c| c.is_ascii_alphanumeric() || c == '.') && text.len() > digits
}

fn range_problem(range: &str, (_, low, high, words): (&str, u32, u32, &[&str])) -> Option<String> {
    let number = |text: &str| -> Result<u32, String> {
        let named = words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + low);
        named.map_or_else(
            || text.parse().map_err(|_| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
            Ok,
        )
    };
    let (span, step) = range.split_once('/').map_or((range, None), |(span, step)| (span, Some(step)));
    let bounds = match span {
        "*" | "?" => Ok((low, high)),
        _ => match span.split_once('-') {
            Some((from, to)) => number(from).and_then(|from| Ok((from, number(to)?))),
            None => number(span).map(|at| (at, if step.is_some() { high } else { at })),
        },
    };
    match (bounds, step.map(str::parse::<u32>)) {
        (Err(why), _) => Some(why),
        (_, Some(Err(_))) => Some(format!(
            "failed to parse int from {}: strconv.Atoi: parsing {:?}: invalid syntax",
            step.unwrap_or_default(),
            step.unwrap_or_default()
        )),
        (_, Some(Ok(0))) => Some(format!("step of range should be a positive number: {range}")),
        (Ok((from, _)), _) if from < low => Some(format!("beginning of range ({from}) below minimum ({low}): {range}")),
        (Ok((_, to)), _) if to > high => Some(format!("end of range ({to}) above maximum ({high}): {range}")),
        (Ok((from, to)), _) if from > to => Some(format!("beginning of range ({from}) beyond end of range ({to}): {range}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_schedules_are_sound() {
        for schedule in ["* * * * *", "*/5 * * * *", "0 0 1,15 * mon-fri", "@daily", "@every 1h30m", "TZ=UTC 0 0 * * *"] {
            assert_eq!(problem(schedule), None, "{schedule}");
        }
    }

    #[test]
    fn broken_ones_say_why() {
        for (schedule, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("@never", "unrecognized descriptor: @never"),
        ] {
            assert_eq!(problem(schedule).as_deref(), Some(why), "{schedule}");
        }
    }
}

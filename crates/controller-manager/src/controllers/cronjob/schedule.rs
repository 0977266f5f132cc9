//! Cron schedules: parsing, and the times before and after a moment. Pure.

use jiff::{
    Timestamp, ToSpan as _,
    civil::{Date, DateTime},
    tz::TimeZone,
};

/// No schedule is looked for further away than this: there is none, as for 30 February.
const DAYS: i32 = 366 * 5;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// What is wrong with a schedule.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Error {
    #[error("expected exactly 5 fields, found {found}: [{text}]")]
    Fields { found: usize, text: String },
    #[error("failed to parse field {0:?}")]
    Field(String),
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
}

/// The minutes, hours, days of month, months and days of week at which something is due, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    minutes: u64,
    hours: u64,
    days: Field,
    months: u64,
    weekdays: Field,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Given as `*`: then the other of the two day fields alone decides.
    star: bool,
}

impl Schedule {
    /// Parses five fields, or a descriptor as `@hourly`.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let expanded = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other if other.starts_with('@') => return Err(Error::Descriptor(other.into())),
            other => other,
        };
        let fields: Vec<&str> = expanded.split_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(Error::Fields { found: fields.len(), text: fields.join(" ") });
        };
        Ok(Self {
            minutes: field(minutes, 0, 59, &[])?.bits,
            hours: field(hours, 0, 23, &[])?.bits,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?.bits,
            weekdays: field(weekdays, 0, 6, &WEEKDAYS)?,
        })
    }

    /// The first time after `after`.
    pub(crate) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = zone.to_datetime(after).date();
        let mut days = (0..DAYS).filter_map(|day| start.checked_add(day.days()).ok()).filter(|date| self.has_day(*date));
        days.find_map(|date| self.times(date, zone).find(|time| *time > after))
    }

    /// The last time at or before `until`, and after `after`.
    pub(crate) fn last(&self, after: Timestamp, until: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let (start, first) = (zone.to_datetime(until).date(), zone.to_datetime(after).date());
        let days = (0..DAYS).filter_map(|day| start.checked_sub(day.days()).ok()).take_while(|date| *date >= first);
        let mut days = days.filter(|date| self.has_day(*date));
        days.find_map(|date| self.times(date, zone).filter(|time| *time > after && *time <= until).last())
    }

    fn has_day(&self, date: Date) -> bool {
        let has = |bits: u64, value: i8| u32::try_from(value).is_ok_and(|value| bits & (1 << value) != 0);
        let day = has(self.days.bits, date.day());
        let weekday = has(self.weekdays.bits, date.weekday().to_sunday_zero_offset());
        let either = if self.days.star || self.weekdays.star { day && weekday } else { day || weekday };
        has(self.months, date.month()) && either
    }

    /// The times of one day, in order. A time that a clock change leaves out moves behind it.
    fn times(&self, date: Date, zone: &TimeZone) -> impl Iterator<Item = Timestamp> {
        let hours = (0..24_i8).filter(|hour| self.hours & (1 << hour) != 0);
        let minutes = self.minutes;
        let all =
            hours.flat_map(move |hour| (0..60_i8).filter(move |minute| minutes & (1 << minute) != 0).map(move |minute| (hour, minute)));
        all.filter_map(move |(hour, minute)| {
            let time: DateTime = date.at(hour, minute, 0, 0);
            zone.to_timestamp(time).ok()
        })
    }
}

fn field(text: &str, min: u32, max: u32, names: &[&str]) -> Result<Field, Error> {
    let mut field = Field { bits: 0, star: false };
    for part in text.split(',') {
        let (bits, star) = range(part, min, max, names).ok_or_else(|| Error::Field(text.to_owned()))?;
        field.bits |= bits;
        field.star |= star;
    }
    Ok(field)
}

fn range(part: &str, min: u32, max: u32, names: &[&str]) -> Option<(u64, bool)> {
    let (span, step) = match part.split_once('/') {
        Some((span, step)) => (span, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?)),
        None => (part, None),
    };
    let star = matches!(span, "*" | "?");
    let (first, last) = match span.split_once('-') {
        _ if star => (min, max),
        Some((first, last)) => (value(first, min, names)?, value(last, min, names)?),
        None => {
            let first = value(span, min, names)?;
            // "N/step" means from N to the end.
            (first, if step.is_some() { max } else { first })
        }
    };
    // Sunday may be 7 as well.
    let wraps = max == 6 && last == 7;
    if first < min || (last > max && !wraps) || first > last {
        return None;
    }
    let step = step.unwrap_or(1);
    let bits =
        (first..=last).step_by(usize::try_from(step).ok()?).fold(0, |bits, value| bits | 1_u64 << (if wraps { value % 7 } else { value }));
    Some((bits, star && step == 1))
}

fn value(text: &str, min: u32, names: &[&str]) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let named = names.iter().position(|name| *name == lower).and_then(|index| u32::try_from(index).ok());
    named.map(|index| index + min).or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, tz::TimeZone};

    use super::{Error, Schedule};

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn next(schedule: &str, after: &str) -> String {
        Schedule::parse(schedule).unwrap().next(at(after), &TimeZone::UTC).unwrap().to_string()
    }

    #[test]
    fn finds_the_next_time() {
        assert_eq!(next("*/15 * * * *", "2026-01-01T10:07:00Z"), "2026-01-01T10:15:00Z");
        assert_eq!(next("0 9 * * mon-fri", "2026-01-02T10:00:00Z"), "2026-01-05T09:00:00Z");
        assert_eq!(next("@monthly", "2026-01-15T00:00:00Z"), "2026-02-01T00:00:00Z");
        assert_eq!(next("30 2 29 2 *", "2026-01-01T00:00:00Z"), "2028-02-29T02:30:00Z");
    }

    #[test]
    fn either_day_field_is_enough_when_both_are_given() {
        assert_eq!(next("0 0 13 * fri", "2026-01-01T12:00:00Z"), "2026-01-02T00:00:00Z");
        assert_eq!(next("0 0 * * 7", "2026-01-01T12:00:00Z"), "2026-01-04T00:00:00Z");
    }

    #[test]
    fn finds_the_last_time_missed() {
        let hourly = Schedule::parse("0 * * * *").unwrap();
        let last = |after: &str, until: &str| hourly.last(at(after), at(until), &TimeZone::UTC).map(|time| time.to_string());
        assert_eq!(last("2026-01-01T00:30:00Z", "2026-01-03T10:59:59Z").as_deref(), Some("2026-01-03T10:00:00Z"));
        assert_eq!(last("2026-01-03T10:00:00Z", "2026-01-03T10:59:59Z"), None);
    }

    #[test]
    fn there_is_no_30_february() {
        assert_eq!(Schedule::parse("0 0 30 2 *").unwrap().next(at("2026-01-01T00:00:00Z"), &TimeZone::UTC), None);
    }

    #[test]
    fn refuses_what_is_no_schedule() {
        assert!(matches!(Schedule::parse("* * * *"), Err(Error::Fields { found: 4, .. })));
        assert_eq!(Schedule::parse("61 * * * *"), Err(Error::Field("61".into())));
        assert!(Schedule::parse("@sometimes").is_err());
    }
}

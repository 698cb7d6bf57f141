//! Times as users write and read them: in the local time zone, unless an offset is given. The environment variable `TZ` names another one.
//! A date is the start of the day, `14:05` the last time that it was 14:05 (today, or else yesterday), `2d` the same time two days ago.

use attach::shell::argument;
use jiff::{
    Span, Timestamp, Zoned,
    civil::{Date, DateTime, Time},
    tz::TimeZone,
};
use shared::domain::recorded_at::RecordedAt;

use crate::error::CliError;

const FORMS: &str =
    "2026-11-20, 2026-11-20T14:05, 2026-11-20 14:05:30, 14:05, 14:05Z, yesterday, yesterday 14:05, 2d, 3h, 90m";

/// Options for the display of times.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct TimeFormat {
    /// Show times in UTC [default: in the local time zone]
    #[arg(long)]
    utc: bool,
    /// Show times as ISO 8601 with all digits
    #[arg(long)]
    iso: bool,
}

impl TimeFormat {
    /// Returns a time in the local time zone: `2026-11-22 07:24:48`.
    pub(crate) fn text(self, time: RecordedAt) -> String {
        self.in_zone(time, TimeZone::system())
    }

    fn in_zone(self, time: RecordedAt, zone: TimeZone) -> String {
        let text = time.to_string();
        match (self.utc, text.parse::<Timestamp>()) {
            (false, Ok(instant)) => {
                let format = if self.iso {
                    "%Y-%m-%dT%H:%M:%S%.9f%:z"
                } else {
                    "%Y-%m-%d %H:%M:%S"
                };
                instant.to_zoned(zone).strftime(format).to_string()
            }
            _ if self.iso => text,
            _ => format!(
                "{}Z",
                text.split(['.', 'Z']).next().unwrap_or_default().replace('T', " ")
            ),
        }
    }
}

/// Returns a time in the local time zone, with its offset.
pub(crate) fn with_offset(time: RecordedAt) -> String {
    let instant = time.to_string().parse::<Timestamp>().unwrap_or_default();
    let zoned = instant.to_zoned(TimeZone::system());
    zoned.strftime("%Y-%m-%d %H:%M:%S%:z").to_string()
}

/// Parses an earliest time. `option` names it in the error, `@` is a part of the word.
pub(crate) fn since(option: &str, text: &str, now: RecordedAt) -> Result<RecordedAt, CliError> {
    let now = now.to_string().parse().unwrap_or(Timestamp::UNIX_EPOCH);
    let time = parse(text, &now.to_zoned(TimeZone::system()));
    let time = time.and_then(|time| RecordedAt::parse(&time.to_string()).ok());
    time.ok_or_else(|| {
        let sign = if option == "@" { "@" } else { "" };
        let place = format!("{option}: ");
        let word = |text: &str| argument(&format!("{sign}{text}"));
        CliError::Usage(format!(
            "{}{} is not a time: expected {}, local unless an offset is given, as in {sign}2026-11-20T14:05Z",
            place.trim_start_matches("@: "),
            word(text),
            FORMS.split(", ").map(word).collect::<Vec<_>>().join(", ")
        ))
    })
}

/// Parses a latest time. A time that is given to the second, as `vzero log` shows it, includes this second.
pub(crate) fn until(option: &str, text: &str, now: RecordedAt) -> Result<RecordedAt, CliError> {
    let time = since(option, text, now)?;
    Ok(if is_to_the_second(text) {
        time.after(std::time::Duration::from_nanos(999_999_999))
    } else {
        time
    })
}

fn is_to_the_second(text: &str) -> bool {
    let time = text.trim().rsplit([' ', 'T', '@']).next().unwrap_or_default();
    let time = time.split(['Z', '+', '-']).next().unwrap_or_default();
    time.matches(':').count() == 2 && !time.contains(['.', ','])
}

fn parse(text: &str, now: &Zoned) -> Option<Timestamp> {
    let text = text.trim();
    // The parser accepts more than ISO 8601.
    let offset = text.split_once(':').and_then(|(_, rest)| rest.split_once(['+', '-']));
    if offset.is_some_and(|(_, hours)| hours.get(..2) > Some("23")) {
        return None;
    }
    let local = |time: DateTime| Some(time.to_zoned(now.time_zone().clone()).ok()?.timestamp());
    let day = |days: i64| now.date().checked_sub(Span::new().days(days)).ok();
    for (name, days) in [("today", 0), ("yesterday", 1)] {
        if let Some(rest) = text.strip_prefix(name) {
            let time = match rest.strip_prefix([' ', 'T', '@']) {
                None if rest.is_empty() => Time::midnight(),
                time => time_of_day(time?)?,
            };
            return local(day(days)?.to_datetime(time));
        }
    }
    if let Some(time) = time_of_day(text) {
        let at = |date: Date| local(date.to_datetime(time));
        return at(day(0)?)
            .filter(|time| *time <= now.timestamp())
            .or_else(|| at(day(1)?));
    }
    // With an offset, the date is that of the last such time, too.
    let on = |days| format!("{}T{text}", day(days)?).parse::<Timestamp>().ok();
    if text.contains(':')
        && !text.contains('[')
        && let Some(time) = (-1..=2).filter_map(on).find(|time| *time <= now.timestamp())
    {
        return Some(time);
    }
    if text == "now" {
        return Some(now.timestamp());
    }
    if let Ok(span) = text.strip_suffix(" ago").unwrap_or(text).parse::<Span>() {
        let before = now.checked_sub(span).ok().filter(|_| !span.is_negative());
        return before.map(|before| before.timestamp());
    }
    // A time zone in brackets would be ignored if the text has no offset.
    let text = Some(text).filter(|text| !text.contains('['))?;
    text.parse().ok().or_else(|| local(text.parse().ok()?))
}

/// Parses `14:05` or `14:05:30`.
fn time_of_day(text: &str) -> Option<Time> {
    let is_time = text.contains(':') && text.bytes().all(|byte| byte.is_ascii_digit() || b":.,".contains(&byte));
    text.parse().ok().filter(|_| is_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_unless_they_have_an_offset() {
        // Central European time: summer time ended on 2026-10-25, a day of 25 hours. It is 8:30:15.
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let now = "2026-11-26T07:30:15Z"
            .parse::<Timestamp>()
            .unwrap()
            .to_zoned(zone.clone());
        let cases = "now=2026-11-26T07:30:15Z, today=2026-11-25T23:00:00Z, yesterday=2026-11-24T23:00:00Z, \
            yesterday 14:05=2026-11-25T13:05:00Z, yesterday@14:05=2026-11-25T13:05:00Z, 08:30=2026-11-26T07:30:00Z, \
            14:05=2026-11-25T13:05:00Z, 14:05:30Z=2026-11-25T14:05:30Z, 07:30:15Z=2026-11-26T07:30:15Z, \
            01:00+02:00=2026-11-25T23:00:00Z, 23:00-02:00=2026-11-26T01:00:00Z, 08:30:15.5=2026-11-25T07:30:15.5Z, 2d=2026-11-24T07:30:15Z, 33d=2026-10-24T06:30:15Z, \
            90m=2026-11-26T06:00:15Z, 3h ago=2026-11-26T04:30:15Z, 2026-11-20=2026-11-19T23:00:00Z, \
            2026-07-01=2026-06-30T22:00:00Z, 2026-11-20T14:05=2026-11-20T13:05:00Z, 2026-11-20 14:05:06=2026-11-20T13:05:06Z, \
            2026-11-20T14:05Z=2026-11-20T14:05:00Z, 2026-11-20T14:05:00.123456003-05:30=2026-11-20T19:35:00.123456003Z";
        for (text, expected) in cases.split(", ").filter_map(|case| case.split_once('=')) {
            assert_eq!(
                parse(text, &now).map(|time| time.to_string()).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for text in
            ",soon,5,-2d,14,25:00,25:00Z,2026-11-20T14:05+25:00,14:05-24:00,14:05Z[UTC],yesterday14:05,yesterday soon,2026-13-01,2026-11-20T14:05[UTC]"
                .split(',')
        {
            assert_eq!(parse(text, &now), None, "{text}");
        }
        let time = RecordedAt::parse("2026-07-22T22:24:48.123456003Z").unwrap();
        for (utc, iso, expected) in [
            (false, false, "2026-07-23 00:24:48"),
            (true, false, "2026-07-22 22:24:48Z"),
            (false, true, "2026-07-23T00:24:48.123456003+02:00"),
            (true, true, "2026-07-22T22:24:48.123456003Z"),
        ] {
            let shown = TimeFormat { utc, iso }.in_zone(time, zone.clone());
            // A time that is shown selects its version.
            let read = RecordedAt::parse(&parse(&shown, &now).unwrap().to_string()).unwrap();
            assert_eq!(
                (shown.as_str(), read == time, is_to_the_second(&shown)),
                (expected, iso, !iso)
            );
        }
        assert!(!is_to_the_second("14:05") && !is_to_the_second("2026-11-20T14:05:00.5+01:00"));
    }
}

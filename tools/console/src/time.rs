//! Display of times.

use jiff::Timestamp;
use maud::{Markup, html};
use shared::{
    clock,
    domain::{recorded_at::RecordedAt, time::EpochMillis},
};

/// Formats a time as in `2020-11-01T20:04:00Z`.
pub(super) fn iso(time: EpochMillis) -> String {
    Timestamp::from_millisecond(time.get()).map_or_else(|_| time.get().to_string(), |time| time.to_string())
}

/// Renders a time and its age.
pub(super) fn shown(time: EpochMillis) -> Markup {
    html! { (element(time, &iso(time))) " " span.muted { (ago(now(), time)) } }
}

/// Renders the time at which a version was recorded, and its age.
pub(super) fn recorded(time: RecordedAt) -> Markup {
    let millis = time.floor_millis();
    html! { (element(millis, &exact(time))) " " span.muted { (ago(now(), millis)) } }
}

/// Renders a time in seconds and its age, for a line of a list.
pub(super) fn brief(time: EpochMillis) -> Markup {
    let iso = iso(time);
    let seconds = iso.split('.').next().unwrap_or_default();
    html! { span.at { (element(time, seconds)) } " " span.ago { (ago(now(), time)) } }
}

/// Renders a time in UTC. The script shows it in the time zone of the browser, and in UTC on hover.
fn element(time: EpochMillis, text: &str) -> Markup {
    let text = spaced(text) + " UTC";
    html! { time datetime=(iso(time)) title=(text) { (text) } }
}

/// Returns the text of a time with a space in place of `T`, and without `Z`.
pub(super) fn spaced(text: &str) -> String {
    text.trim_end_matches('Z').replace('T', " ")
}

/// Formats a time in UTC with all its digits, as in `2026-11-22T06:24:48.123456003`. [`RecordedAt::parse`] returns the same
/// time.
pub(super) fn exact(time: RecordedAt) -> String {
    let text = time.to_string();
    let text = text.trim_end_matches('Z');
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns a time for a date picker, which has milliseconds.
pub(super) fn of_picker(time: RecordedAt) -> String {
    exact(time).chars().take("2026-11-22T06:24:48.123".len()).collect()
}

pub(super) fn now() -> EpochMillis {
    EpochMillis::new(i64::try_from(clock::since_epoch().as_millis()).unwrap_or(i64::MAX))
}

/// Formats the distance to the current time, as in `3 min ago` or `in 2 d`.
pub(super) fn ago(now: EpochMillis, time: EpochMillis) -> String {
    const UNITS: [(u64, &str); 5] = [(31_557_600, "y"), (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = now.get().saturating_sub(time.get()) / 1000;
    let length = seconds.unsigned_abs();
    let unit = UNITS.into_iter().find(|(unit, _)| length >= *unit);
    match unit.map(|(unit, name)| format!("{} {name}", length / unit)) {
        None => "now".to_owned(),
        Some(age) if seconds > 0 => format!("{age} ago"),
        Some(age) => format!("in {age}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_the_largest_unit() {
        let at = EpochMillis::new;
        for (millis, text) in [
            (0, "now"),
            (999, "now"),
            (1_000, "1 s ago"),
            (59_999, "59 s ago"),
            (60_000, "1 min ago"),
            (7_200_000, "2 h ago"),
            (86_400_000 * 40, "40 d ago"),
            (31_557_600_000 * 3, "3 y ago"),
            (-120_000, "in 2 min"),
        ] {
            assert_eq!(ago(at(0), at(-millis)), text);
        }
    }

    #[test]
    fn the_text_of_a_recorded_time_is_exact() {
        for (text, expected) in [
            ("2026-11-22T06:24:48.123456003Z", "2026-11-22T06:24:48.123456003"),
            ("2026-11-22T06:24:48.123400Z", "2026-11-22T06:24:48.1234"),
            ("2026-11-20T00:00:00Z", "2026-11-20T00:00:00"),
            ("9999-12-30T22:00:00.999999999Z", "9999-12-30T22:00:00.999999999"),
        ] {
            let time = RecordedAt::parse(text).unwrap();
            assert_eq!(exact(time), expected);
            assert_eq!(RecordedAt::parse(&exact(time)), Ok(time));
            // As on the page.
            assert_eq!(RecordedAt::parse(&spaced(expected)), Ok(time));
        }
    }

    #[test]
    fn times_outside_the_calendar_are_numbers() {
        assert_eq!(iso(EpochMillis::new(1_604_261_040_000)), "2020-11-01T20:04:00Z");
        assert_eq!(iso(EpochMillis::new(i64::MAX)), i64::MAX.to_string());
    }
}

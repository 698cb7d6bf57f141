//! The versions of a page on a line, as SVG.

use maud::{Markup, html};

/// How wide the drawing is, in its own units, and how far the line is from its ends.
const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
/// Where the line is.
const LINE: f64 = 44.0;
/// The strip that shows where in the whole history this page is.
const STRIP: f64 = 84.0;

/// One version on the line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) version: u64,
    pub(super) kind: Kind,
    /// In epoch milliseconds, where it is known.
    pub(super) time: Option<i64>,
    /// What is said of it.
    pub(super) title: String,
    /// Where it leads to, if it is there.
    pub(super) link: Option<String>,
}

/// What a version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Live,
    Tombstone,
    /// Not in history yet.
    Lagging,
    /// Not there, though later ones are.
    Gap,
    /// Below the floor.
    Pruned,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Tombstone => "deleted",
            Self::Lagging => "on its way",
            Self::Gap => "missing",
            Self::Pruned => "pruned",
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Tombstone => "dead",
            Self::Lagging => "lag",
            Self::Gap => "gap",
            Self::Pruned => "pruned",
        }
    }
}

/// What the line is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole {
    /// The latest version.
    pub(super) head: u64,
    /// Where history begins.
    pub(super) floor: u64,
    /// Whether versions stand where their times are, and not side by side.
    pub(super) by_time: bool,
}

/// Whether versions can stand where their times are: all that are there have one, and not all the same.
pub(super) fn has_times(marks: &[Mark]) -> bool {
    let there = || marks.iter().filter(|mark| mark.link.is_some());
    let times = || there().filter_map(|mark| mark.time);
    there().count() > 1 && there().all(|mark| mark.time.is_some()) && times().min() != times().max()
}

/// Where each mark is, from 0 to 1, the oldest first. What has no time stands between its neighbours.
fn places(marks: &[Mark], by_time: bool) -> Vec<f64> {
    let count = marks.len();
    #[allow(clippy::cast_precision_loss, reason = "a place in a drawing")]
    let even = |index: usize| match count {
        0 | 1 => 0.5,
        _ => index as f64 / (count - 1) as f64,
    };
    let times = || marks.iter().filter_map(|mark| mark.time);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return (0..count).map(even).collect();
    };
    if !by_time || first == last {
        return (0..count).map(even).collect();
    }
    #[allow(clippy::cast_precision_loss, reason = "a place in a drawing")]
    let at = |time: i64| time.saturating_sub(first) as f64 / last.saturating_sub(first) as f64;
    let known: Vec<_> = marks.iter().map(|mark| mark.time.map(at)).collect();
    (0..count)
        .map(|index| {
            let before = (0..=index).rev().find_map(|i| Some((i, known[i]?)));
            let after = (index..count).find_map(|i| Some((i, known[i]?)));
            match (before, after) {
                (Some((i, a)), Some((j, b))) if j > i => {
                    #[allow(clippy::cast_precision_loss, reason = "a place in a drawing")]
                    let share = (index - i) as f64 / (j - i) as f64;
                    a + (b - a) * share
                }
                (Some((_, x)), _) | (None, Some((_, x))) => x,
                (None, None) => even(index),
            }
        })
        .collect()
}

/// The drawing. The marks come with the oldest first.
pub(super) fn drawing(marks: &[Mark], whole: Whole) -> Markup {
    let x = |place: f64| MARGIN + place * (WIDTH - 2.0 * MARGIN);
    let at: Vec<_> = places(marks, whole.by_time).into_iter().map(x).collect();
    let (first, last) = (marks.first(), marks.last());
    let lag = marks.iter().position(|mark| mark.kind == Kind::Lagging);
    #[allow(clippy::cast_precision_loss, reason = "a place in a drawing")]
    let strip = |version: u64| x((version.saturating_sub(1)) as f64 / whole.head.max(1) as f64);
    html! {
        svg.timeline viewBox={ "0 0 " (WIDTH) " 104" } role="group" aria-label="Time line" {
            line.axis x1=(MARGIN) x2=(WIDTH - MARGIN) y1=(LINE) y2=(LINE) {}
            @if let Some(from) = lag.and_then(|index| at.get(index)) {
                rect.behind x=(round(from - 10.0)) width=(round(WIDTH - MARGIN - from + 20.0)) y=(LINE - 16.0) height="32" rx="4" {
                    title { "Not in history yet" }
                }
            }
            @for (mark, x) in marks.iter().zip(&at) { (dot(mark, *x)) }
            @if let Some(first) = first { text.label x=(MARGIN) y="16" { (label(first)) } }
            @if let Some(last) = last.filter(|_| marks.len() > 1) { text.label.end x=(WIDTH - MARGIN) y="16" { (label(last)) } }
            g {
                title { "This page in the whole history, 1 to " (whole.head) }
                rect.strip x=(MARGIN) width=(WIDTH - 2.0 * MARGIN) y=(STRIP) height="8" rx="4" {}
                @if whole.floor > 1 { rect.strip.pruned x=(MARGIN) width=(round(strip(whole.floor) - MARGIN)) y=(STRIP) height="8" rx="4" {} }
                @if let (Some(first), Some(last)) = (first, last) {
                    rect.window x=(round(strip(first.version))) width=(round((strip(last.version + 1) - strip(first.version)).max(4.0))) y=(STRIP - 2.0) height="12" rx="4" {}
                }
            }
        }
    }
}

fn label(mark: &Mark) -> String {
    match mark.time {
        Some(time) => {
            let time = super::time::iso(shared::domain::time::EpochMillis::new(time));
            format!("v{} · {}", mark.version, time.replace('T', " ").trim_end_matches('Z'))
        }
        None => format!("v{}", mark.version),
    }
}

fn dot(mark: &Mark, x: f64) -> Markup {
    let x = round(x);
    let shape = html! {
        @match mark.kind {
            Kind::Live => circle.live cx=(x) cy=(LINE) r="6" {},
            Kind::Tombstone => path.dead d={ "M" (x - 6.0) " " (LINE - 6.0) "l12 12m0-12l-12 12" } {},
            kind => circle class=(kind.class()) cx=(x) cy=(LINE) r="5" {},
        }
        title { (mark.title) }
    };
    html! {
        // The table below has the same links, for the keyboard.
        @if let Some(link) = &mark.link { a href=(link) tabindex="-1" aria-label=(mark.title) { (shape) } } @else { g { (shape) } }
    }
}

/// A tenth of a unit is finer than a screen.
fn round(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(version: u64, kind: Kind, time: Option<i64>) -> Mark {
        Mark {
            version,
            kind,
            time,
            title: format!("v{version}"),
            link: matches!(kind, Kind::Live | Kind::Tombstone).then(|| format!("/version?version={version}")),
        }
    }

    #[test]
    fn versions_stand_where_their_times_are() {
        let marks = [(1, Some(0)), (2, Some(10)), (3, None), (4, Some(30)), (5, None)];
        let marks = marks.map(|(version, time)| mark(version, Kind::Live, time));
        let close = |places: Vec<f64>, expected: [f64; 5]| {
            let all = places.iter().zip(expected);
            assert!(
                all.clone().count() == places.len() && all.into_iter().all(|(a, b)| (a - b).abs() < 1e-9),
                "{places:?}"
            );
        };
        close(places(&marks, true), [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0, 1.0]);
        close(places(&marks, false), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(places(&marks[..1], true), [0.5]);
        assert!(places(&[], true).is_empty());
        // Times at the ends of what a number holds.
        let ends = [i64::MIN, i64::MAX].map(|time| mark(1, Kind::Live, Some(time)));
        assert!(places(&ends, true).iter().all(|place| (0.0..=1.0).contains(place)));
    }

    #[test]
    fn times_are_used_where_all_have_one() {
        let live = |version, time| mark(version, Kind::Live, time);
        assert!(has_times(&[live(1, Some(1)), live(2, Some(2))]));
        assert!(has_times(&[
            live(1, Some(1)),
            mark(2, Kind::Gap, None),
            live(3, Some(2))
        ]));
        assert!(!has_times(&[live(1, Some(1)), live(2, None)]));
        assert!(!has_times(&[live(1, Some(1)), live(2, Some(1))]));
        assert!(!has_times(&[live(1, Some(1))]));
    }

    #[test]
    fn each_kind_is_drawn() {
        let kinds = [Kind::Pruned, Kind::Live, Kind::Gap, Kind::Tombstone, Kind::Lagging];
        let marks: Vec<_> = (1..)
            .zip(kinds)
            .map(|(version, kind)| mark(version, kind, None))
            .collect();
        let whole = Whole {
            head: 5,
            floor: 2,
            by_time: false,
        };
        let svg = drawing(&marks, whole).into_string();
        for class in ["pruned", "live", "gap", "dead", "lag", "behind", "strip", "window"] {
            assert!(svg.contains(class), "{class}: {svg}");
        }
        assert_eq!(svg.matches("<a ").count(), 2, "{svg}");
        assert!(drawing(&[], whole).into_string().contains("svg"));
    }
}

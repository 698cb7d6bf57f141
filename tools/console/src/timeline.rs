//! Time line of the versions of a page, as SVG.

#![allow(clippy::cast_precision_loss, reason = "positions in a drawing")]

use maud::{Markup, html};
use shared::domain::time::EpochMillis;

use crate::time;

/// Width of the drawing, and margin of the line, in units of the view box.
const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
/// Vertical position of the line.
const LINE: f64 = 44.0;
/// Vertical position of the strip that shows the part of the history on this page.
const STRIP: f64 = 84.0;

/// Minimum distance of two marks, as a part of the line.
const MIN_GAP: f64 = 0.015;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) version: u64,
    pub(super) kind: Kind,
    pub(super) exists: bool,
    /// Epoch milliseconds, if known.
    pub(super) time: Option<i64>,
    pub(super) title: String,
    /// Address of the version, if it exists.
    pub(super) link: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Live,
    Tombstone,
    /// Has the attributes of an earlier version.
    Restored,
    /// Not in history yet.
    Lagging,
    /// Missing, although a later version exists.
    Gap,
    /// Below the floor.
    Pruned,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Live,
        Self::Restored,
        Self::Tombstone,
        Self::Gap,
        Self::Lagging,
        Self::Pruned,
    ];

    /// Name, class, and shape in the legend.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Live => ("live", "live", "●"),
            Self::Restored => ("restored", "restored", "◆"),
            Self::Tombstone => ("deleted", "dead", "✕"),
            Self::Gap => ("missing", "gap", "◌"),
            Self::Lagging => ("on its way", "lag", "○"),
            Self::Pruned => ("pruned", "pruned", "•"),
        }
    }

    pub(super) fn name(self) -> &'static str {
        self.words().0
    }

    pub(super) fn class(self) -> &'static str {
        self.words().1
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) latest: u64,
    /// First version that was not pruned.
    pub(super) floor: u64,
    /// `true` to place versions by their times, `false` to space them evenly.
    pub(super) by_time: bool,
}

/// Returns `true` if versions can be placed by their times: all versions that exist have a time, and the times differ.
pub(super) fn has_times(marks: &[Mark]) -> bool {
    let existing = || marks.iter().filter(|mark| mark.exists);
    let times = || existing().filter_map(|mark| mark.time);
    existing().count() > 1 && existing().all(|mark| mark.time.is_some()) && times().min() != times().max()
}

/// Returns the position of each mark, from 0 to 1, oldest first. A mark without a time is placed between its neighbors. The order is
/// that of the versions, also if a time is earlier than the one before, and the marks do not overlap.
fn positions(marks: &[Mark], by_time: bool) -> Vec<f64> {
    let times = || marks.iter().filter_map(|mark| mark.time);
    let ends = times().min().zip(times().max());
    let Some((first, last)) = ends.filter(|(first, last)| by_time && first != last) else {
        let last = marks.len().saturating_sub(1);
        let even = |index| if last == 0 { 0.5 } else { index as f64 / last as f64 };
        return (0..marks.len()).map(even).collect();
    };
    let mut latest = first;
    let known = marks.iter().map(|mark| {
        latest = latest.max(mark.time?);
        Some(latest.saturating_sub(first) as f64 / last.saturating_sub(first) as f64)
    });
    let known: Vec<_> = known.collect();
    let place = |index: usize| {
        let before = (0..=index).rev().find_map(|at| Some((at, known[at]?)));
        let after = (index..known.len()).find_map(|at| Some((at, known[at]?)));
        match (before, after) {
            (Some((i, a)), Some((j, b))) if j > i => a + (b - a) * (index - i) as f64 / (j - i) as f64,
            (known, other) => known.or(other).map_or(0.5, |(_, place)| place),
        }
    };
    let mut positions: Vec<_> = (0..known.len()).map(place).collect();
    spread(&mut positions);
    positions
}

/// Moves positions, which do not decrease, so that each has a distance from the next.
fn spread(positions: &mut [f64]) {
    let gap = MIN_GAP.min(1.0 / positions.len().max(2).saturating_sub(1) as f64);
    let mut least = 0.0;
    for position in positions.iter_mut() {
        *position = position.max(least);
        least = *position + gap;
    }
    let mut most = 1.0;
    for position in positions.iter_mut().rev() {
        *position = position.min(most);
        most = *position - gap;
    }
}

/// Draws the time line. The marks are ordered from the oldest.
pub(super) fn drawing(marks: &[Mark], scale: Scale) -> Markup {
    let x = |position: f64| MARGIN + position * (WIDTH - 2.0 * MARGIN);
    let at: Vec<_> = positions(marks, scale.by_time).into_iter().map(x).collect();
    let (first, last) = (marks.first(), marks.last());
    let lag = marks.iter().position(|mark| mark.kind == Kind::Lagging);
    let strip = |version: u64| x((version.saturating_sub(1)) as f64 / scale.latest.max(1) as f64);
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
                title { "Versions of this page within the history, 1 to " (scale.latest) }
                rect.strip x=(MARGIN) width=(WIDTH - 2.0 * MARGIN) y=(STRIP) height="8" rx="4" {}
                @if scale.floor > 1 { rect.strip.pruned x=(MARGIN) width=(round(strip(scale.floor) - MARGIN)) y=(STRIP) height="8" rx="4" {} }
                @if let (Some(first), Some(last)) = (first, last) {
                    rect.window x=(round(strip(first.version))) width=(round((strip(last.version.saturating_add(1)) - strip(first.version)).max(4.0))) y=(STRIP - 2.0) height="12" rx="4" {}
                }
            }
        }
    }
}

/// Explains the marks that occur.
pub(super) fn legend(marks: &[Mark]) -> Markup {
    let occurs = |kind: &Kind| marks.iter().any(|mark| mark.kind == *kind);
    html! {
        @for kind in Kind::ALL.into_iter().filter(occurs) {
            span {
                span aria-hidden="true" class={ "shape " (kind.class()) } { (kind.words().2) } " "
                @if kind == Kind::Live { "version" } @else { (kind.name()) }
            }
        }
    }
}

fn label(mark: &Mark) -> String {
    match mark.time {
        Some(time) => {
            let time = time::iso(EpochMillis::new(time));
            format!("v{} · {}", mark.version, time::spaced(&time))
        }
        None => format!("v{}", mark.version),
    }
}

fn dot(mark: &Mark, x: f64) -> Markup {
    let x = round(x);
    let shape = html! {
        @match mark.kind {
            Kind::Live => circle.live cx=(x) cy=(LINE) r="6" {},
            Kind::Tombstone => path.dead d={ "M" (round(x - 6.0)) " " (LINE - 6.0) "l12 12m0-12l-12 12" } {},
            Kind::Restored => path.restored d={ "M" (x) " " (LINE - 9.0) "l9 9l-9 9l-9-9z" } {},
            kind => circle class=(kind.class()) cx=(x) cy=(LINE) r="5" {},
        }
        title { (mark.title) }
    };
    html! {
        // Keyboard users have the same links in the table below.
        @if let Some(link) = &mark.link { a href=(link) tabindex="-1" aria-label={ "Version " (mark.version) } { (shape) } } @else { g { (shape) } }
    }
}

/// Rounds to a tenth of a unit.
fn round(position: f64) -> f64 {
    (position * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(version: u64, kind: Kind, time: Option<i64>) -> Mark {
        Mark {
            version,
            kind,
            time,
            exists: !matches!(kind, Kind::Gap | Kind::Pruned | Kind::Lagging),
            title: format!("v{version}"),
            link: matches!(kind, Kind::Live | Kind::Tombstone | Kind::Restored)
                .then(|| format!("/version?version={version}")),
        }
    }

    #[test]
    fn versions_stand_where_their_times_are() {
        let marks = [(1, Some(0)), (2, Some(10)), (3, None), (4, Some(30)), (5, None)];
        let marks = marks.map(|(version, time)| mark(version, Kind::Live, time));
        let close = |positions: Vec<f64>, expected: [f64; 5]| {
            let is_close = positions.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(positions.len() == 5 && is_close, "{positions:?}");
        };
        close(positions(&marks, true), [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0 - MIN_GAP, 1.0]);
        close(positions(&marks, false), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(positions(&marks[..1], true), [0.5]);
        assert!(positions(&[], true).is_empty());
    }

    #[test]
    fn each_version_has_its_own_place() {
        // Times that decrease, times that are equal, and many versions in one moment.
        let decreasing = [50, 10, 40, 60, 60, 20, 100].map(Some);
        let moment: Vec<_> = (0..50).map(|n| Some(if n == 49 { 1_000_000 } else { n })).collect();
        // The lowest and the highest time.
        let ends = [i64::MIN, i64::MAX].map(Some);
        for times in [&decreasing[..], &moment, &ends] {
            let marks: Vec<_> = (1..)
                .zip(times)
                .map(|(version, time)| mark(version, Kind::Live, *time))
                .collect();
            let positions = positions(&marks, true);
            assert!(
                positions.iter().all(|position| (0.0..=1.0).contains(position)),
                "{positions:?}"
            );
            let gaps = positions.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.into_iter().all(|gap| gap >= MIN_GAP - 1e-9), "{positions:?}");
        }
    }

    #[test]
    fn times_are_used_if_all_versions_have_one() {
        for (second, third, expected) in [
            ((Kind::Live, Some(2)), None, true),
            ((Kind::Gap, None), Some(2), true),
            ((Kind::Live, None), None, false),
            ((Kind::Live, Some(1)), None, false),
            ((Kind::Gap, None), None, false),
        ] {
            let mut marks = vec![mark(1, Kind::Live, Some(1)), mark(2, second.0, second.1)];
            marks.extend(third.map(|time| mark(3, Kind::Live, Some(time))));
            assert_eq!(has_times(&marks), expected, "{marks:?}");
        }
    }

    #[test]
    fn each_kind_is_drawn() {
        let marks = Kind::ALL.map(|kind| mark(1, kind, None));
        let scale = Scale {
            latest: 6,
            floor: 2,
            by_time: false,
        };
        let svg = drawing(&marks, scale).into_string();
        for class in [
            "pruned", "live", "gap", "dead", "restored", "lag", "behind", "strip", "window",
        ] {
            assert!(svg.contains(class), "{class}: {svg}");
        }
        assert_eq!(svg.matches("<a ").count(), 3, "{svg}");
        assert_eq!(legend(&marks).into_string().matches("shape ").count(), 6);
        assert!(drawing(&[], scale).into_string().contains("svg"));
    }
}

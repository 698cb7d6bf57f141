//! Line plot of values over time, as SVG without inline styles.

use maud::{Markup, html};

const WIDTH: u64 = 640;
const HEIGHT: u64 = 200;
const LEFT: u64 = 56;
const RIGHT: u64 = 12;
const TOP: u64 = 14;
const BOTTOM: u64 = 30;
/// Gap between samples, in milliseconds, above which the line is interrupted.
const MAX_GAP: u64 = 30_000;

pub(super) struct Plot<'a> {
    /// Prefix of element ids.
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    pub(super) description: &'a str,
    /// Milliseconds before now, oldest first, and a value in thousandths.
    pub(super) points: &'a [(u64, u64)],
}

impl Plot<'_> {
    pub(super) fn svg(&self) -> Markup {
        let span = self
            .points
            .iter()
            .map(|(before, _)| *before)
            .max()
            .unwrap_or(0)
            .max(60_000);
        let top = ceiling(self.points.iter().map(|(_, value)| *value).max().unwrap_or(0));
        let (title, description) = (format!("{}-title", self.id), format!("{}-description", self.id));
        let bottom = HEIGHT - BOTTOM;
        html! {
            svg.plot viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-labelledby={ (title) " " (description) } {
                title id=(title) { (self.title) }
                desc id=(description) { (self.description) }
                @for half in 0..=2_u64 {
                    @let y = y(top / 2 * half, top);
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
                    text.label x=(LEFT - 6) y=(y + 4) text-anchor="end" { (thousandths(top / 2 * half)) }
                }
                line.axis x1=(LEFT) x2=(LEFT) y1=(TOP) y2=(bottom) {}
                text.label x=(LEFT) y=(HEIGHT - 8) text-anchor="start" { (ago(span)) }
                text.label x=(WIDTH - RIGHT) y=(HEIGHT - 8) text-anchor="end" { "now" }
                @for line in lines(self.points, span, top) {
                    @match line.split_once(' ') {
                        Some(_) => polyline.line points=(line) fill="none" {},
                        // A single sample is drawn as a dot.
                        None => { @if let Some((x, y)) = line.split_once(',') { circle.dot cx=(x) cy=(y) r="2" {} } }
                    }
                }
            }
        }
    }
}

/// Formats thousandths: `1.25` for 1250.
pub(super) fn thousandths(value: u64) -> String {
    let text = format!("{}.{:03}", value / 1000, value % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the lowest round number that is not below a value: 1, 2 or 5 times a power of ten, at least 1.
fn ceiling(value: u64) -> u64 {
    let decades = (0..).map_while(|decade| 1000_u64.checked_mul(10_u64.checked_pow(decade)?));
    let mut rounds = decades.flat_map(|decade| {
        [1, 2, 5]
            .into_iter()
            .filter_map(move |factor| decade.checked_mul(factor))
    });
    rounds.find(|round| *round >= value).unwrap_or(u64::MAX)
}

fn ago(millis: u64) -> String {
    match millis / 1000 {
        seconds @ 0..120 => format!("{seconds} s ago"),
        seconds => format!("{} min ago", seconds / 60),
    }
}

fn y(value: u64, top: u64) -> u64 {
    let height = HEIGHT - TOP - BOTTOM;
    let up = u128::from(value.min(top)) * u128::from(height) / u128::from(top.max(1));
    HEIGHT - BOTTOM - u64::try_from(up).unwrap_or(0)
}

fn x(before: u64, span: u64) -> u64 {
    let width = WIDTH - LEFT - RIGHT;
    let back = u128::from(before.min(span)) * u128::from(width) / u128::from(span.max(1));
    WIDTH - RIGHT - u64::try_from(back).unwrap_or(0)
}

fn lines(points: &[(u64, u64)], span: u64, top: u64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut last: Option<u64> = None;
    for (before, value) in points {
        let point = format!("{},{}", x(*before, span), y(*value, top));
        match lines
            .last_mut()
            .filter(|_| last.is_some_and(|last| last.saturating_sub(*before) <= MAX_GAP))
        {
            Some(line) => {
                line.push(' ');
                line.push_str(&point);
            }
            None => lines.push(point),
        }
        last = Some(*before);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_are_round() {
        for (value, expected) in [
            (0, 1000),
            (1000, 1000),
            (1001, 2000),
            (2001, 5000),
            (5001, 10_000),
            (10_001, 20_000),
            (49_999, 50_000),
            (700_000, 1_000_000),
        ] {
            assert_eq!(ceiling(value), expected, "{value}");
        }
        assert!(ceiling(u64::MAX) == u64::MAX);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(0, "0"), (1, "0.001"), (1250, "1.25"), (10_000, "10"), (500, "0.5")] {
            assert_eq!(thousandths(value), text);
        }
    }

    #[test]
    fn lines_are_interrupted_by_gaps() {
        let drawn = lines(&[(60_000, 0), (58_000, 1000), (10_000, 500), (0, 500)], 60_000, 1000);
        assert_eq!(drawn, ["56,170 76,14", "533,92 628,92"]);
        assert_eq!(lines(&[], 60_000, 1000), Vec::<String>::new());
        assert_eq!(lines(&[(0, 0)], 0, 0), ["628,170"]);
    }

    #[test]
    fn points_are_within_the_drawing() {
        for (before, value) in [(0, 0), (u64::MAX, u64::MAX), (1, u64::MAX), (u64::MAX, 1)] {
            let (x, y) = (x(before, 60_000), y(value, 1000));
            assert!((LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y));
        }
    }

    #[test]
    fn plots_have_a_title_and_a_description() {
        let plot = Plot {
            id: "rate",
            title: "Versions <a second>",
            description: "d",
            points: &[(4000, 0), (2000, 1500), (0, 700)],
        };
        let svg = plot.svg().into_string();
        assert!(
            svg.contains(r#"role="img" aria-labelledby="rate-title rate-description""#),
            "{svg}"
        );
        assert!(
            svg.contains("<title id=\"rate-title\">Versions &lt;a second&gt;</title>"),
            "{svg}"
        );
        assert!(svg.contains("<polyline") && !svg.contains("style="), "{svg}");
    }
}

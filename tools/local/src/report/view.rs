//! Renders the progress of the stack: as a block for a terminal, or as one line for other outputs.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use console::Style;
use shared::printable;

use super::{activity::Figures, rate::Rate};
use crate::mapping::LastProcessingResult;

const NAME_WIDTH: usize = 10;
const SEPARATOR: &str = " · ";

/// The progress of the stack at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub figures: Figures,
    /// Number of updates of the feed sent so far, and their total number if known.
    pub fed: Option<(u64, Option<u64>)>,
    /// Number of invocations of stream-fn.
    pub batches: u64,
    /// Number of batches that were retried in whole or in part.
    pub retries: u64,
    pub bisections: u64,
    pub documents: u64,
    /// Number of records in no failure document, because it could not be stored.
    pub dropped: u64,
    pub result: LastProcessingResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Plain,
    Bad,
}

type Span = (String, Tone);

impl Snapshot {
    fn updates(&self) -> u64 {
        self.figures
            .applied
            .values()
            .chain(self.figures.rejected.values())
            .sum()
    }

    pub fn block(&self, width: usize, colours: bool) -> Vec<String> {
        let counted = |counts: &BTreeMap<String, u64>, tone| -> Vec<Span> {
            let counted = counts.iter();
            counted
                .map(|(name, count)| (format!("{} {}", grouped(*count), printable::line(name)), tone))
                .collect()
        };
        let plain = |text: String| (text, Tone::Plain);
        let mut rows = Vec::new();
        if let Some((sent, of)) = self.fed.filter(|(sent, of)| of.is_none_or(|of| *sent < of)) {
            let of = of.map(|of| format!(" of {}", grouped(of))).unwrap_or_default();
            rows.push(("feed", vec![plain(format!("{}{of} sent", grouped(sent)))]));
        }
        let mut updates = counted(&self.figures.applied, Tone::Plain);
        updates.extend(counted(&self.figures.rejected, Tone::Bad));
        if updates.is_empty() {
            updates.push(plain("none yet".to_owned()));
        }
        rows.push(("updates", updates));
        let mut history = vec![plain(plural(self.figures.versions, "version"))];
        if self.figures.waiting > 0 {
            history.push(plain(format!("{} in flight", grouped(self.figures.waiting))));
        }
        history.extend(self.figures.lag.map(|lag| plain(format!("lag {}", short(lag)))));
        rows.push(("history", history));
        let rate = |count, what| plain(format!("{} {what}", Rate::per_second(count)));
        rows.push((
            "rates",
            vec![
                rate(self.figures.recent_updates, "updates"),
                rate(self.figures.recent_versions, "versions"),
            ],
        ));
        rows.push((
            "stream",
            vec![
                plain(match self.batches {
                    1 => "1 batch".to_owned(),
                    batches => format!("{} batches", grouped(batches)),
                }),
                plain(format!("{} retries", grouped(self.retries))),
                plain(format!("{} bisected", grouped(self.bisections))),
                (
                    self.result.to_string(),
                    if self.result.is_problem() {
                        Tone::Bad
                    } else {
                        Tone::Plain
                    },
                ),
            ],
        ));
        rows.push(("failures", self.failures()));
        if let Some(error) = &self.figures.error {
            let error = printable::line(error).into_owned();
            rows.push(("error", vec![(error, Tone::Bad)]));
        }
        let rows = rows.iter().flat_map(|(name, spans)| row(name, spans, width, colours));
        rows.collect()
    }

    fn failures(&self) -> Vec<Span> {
        let bad = |text: String| (text, Tone::Bad);
        let mut failures = Vec::new();
        if self.figures.quarantined > 0 {
            failures.push(bad(format!("{} quarantined", grouped(self.figures.quarantined))));
        }
        if self.documents > 0 {
            failures.push(bad(plural(self.documents, "document")));
            failures.push(bad(plural(self.figures.failed, "record")));
        }
        if self.dropped > 0 {
            failures.push(bad(format!("{} dropped", plural(self.dropped, "record"))));
        }
        if failures.is_empty() {
            failures.push(("none".to_owned(), Tone::Plain));
        }
        failures
    }

    /// Returns one machine-readable line: `name=value` pairs separated by spaces.
    pub fn line(&self) -> String {
        let mut line = format!(
            "updates={} refused={} versions={} waiting={} lag_ms={} batches={} retries={} bisections={} quarantined={} failures={} dropped={} result={}",
            self.updates(),
            self.figures.rejected.values().sum::<u64>(),
            self.figures.versions,
            self.figures.waiting,
            self.figures
                .lag
                .map_or_else(|| "-".to_owned(), |lag| lag.as_millis().to_string()),
            self.batches,
            self.retries,
            self.bisections,
            self.figures.quarantined,
            self.documents,
            self.dropped,
            self.result.name(),
        );
        for (name, count) in self.figures.applied.iter().chain(&self.figures.rejected) {
            let _ = write!(line, " {name}={count}");
        }
        line
    }

    /// Removes the lag and the rates, which change even if nothing happens.
    #[must_use]
    pub fn without_times(mut self) -> Self {
        self.figures.lag = None;
        self.figures.recent_updates = 0;
        self.figures.recent_versions = 0;
        self
    }
}

/// Renders a name and its values, wrapped at the width of the terminal.
fn row(name: &str, spans: &[Span], width: usize, colours: bool) -> Vec<String> {
    let style = |tone| match tone {
        Tone::Plain => Style::new(),
        Tone::Bad => Style::new().red(),
    };
    // On a narrow terminal, the name has a row of its own.
    let front = if width < 3 * NAME_WIDTH { 1 } else { NAME_WIDTH };
    let room = width.saturating_sub(front).max(1);
    let mut rows = Vec::new();
    let mut row = String::new();
    let mut used = 0;
    for (text, tone) in spans {
        let text = cut(text, room);
        let between = if used == 0 { "" } else { SEPARATOR };
        let wide = between.chars().count() + text.chars().count();
        if used > 0 && used + wide > room {
            rows.push(std::mem::take(&mut row));
            used = text.chars().count();
        } else {
            row.push_str(between);
            used += wide;
        }
        let _ = write!(row, "{}", style(*tone).force_styling(colours).apply_to(text));
    }
    rows.push(row);
    let dim = Style::new().dim().force_styling(colours);
    let indent = " ".repeat(front);
    if front < NAME_WIDTH {
        let above = dim.apply_to(cut(name, width)).to_string();
        return std::iter::once(above)
            .chain(rows.iter().map(|row| format!("{indent}{row}")))
            .collect();
    }
    let name = dim.apply_to(format!("{name:front$}")).to_string();
    let fronts = std::iter::once(name).chain(std::iter::repeat(indent));
    fronts.zip(&rows).map(|(front, row)| format!("{front}{row}")).collect()
}

fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept = text.chars().take(room.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// Formats a count in groups of three digits.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn plural(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {what}{s}", grouped(count))
}

/// Formats a duration in one unit.
fn short(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{} ms", time.as_millis()),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
        counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    }

    fn busy() -> Snapshot {
        Snapshot {
            figures: Figures {
                applied: counts(&[("Duplicate", 3), ("Written", 1_234_567)]),
                rejected: counts(&[("VersionConflict", 1)]),
                versions: 1_234_560,
                waiting: 7,
                quarantined: 2,
                failed: 2,
                lag: Some(Duration::from_millis(214)),
                recent_updates: 8,
                recent_versions: 61,
                error: Some("writer-fn: VersionConflict: the latest version is 3\n".to_owned()),
            },
            fed: Some((50, Some(200))),
            batches: 61,
            retries: 12,
            bisections: 2,
            documents: 1,
            dropped: 3,
            result: LastProcessingResult::FunctionCallFailed,
        }
    }

    #[test]
    fn a_block() {
        assert_eq!(
            busy().block(80, false),
            [
                "feed      50 of 200 sent",
                "updates   3 Duplicate · 1,234,567 Written · 1 VersionConflict",
                "history   1,234,560 versions · 7 in flight · lag 214 ms",
                "rates     1.6/s updates · 12/s versions",
                "stream    61 batches · 12 retries · 2 bisected · PROBLEM: Function call failed",
                "failures  2 quarantined · 1 document · 2 records · 3 records dropped",
                "error     writer-fn: VersionConflict: the latest version is 3\\n",
            ]
        );
        assert_eq!(
            Snapshot::default().block(80, false),
            [
                "updates   none yet",
                "history   0 versions",
                "rates     0.0/s updates · 0.0/s versions",
                "stream    0 batches · 0 retries · 0 bisected · No records processed",
                "failures  none",
            ]
        );
        // A complete feed is not shown; a feed of unknown length always is.
        let fed = |fed| {
            Snapshot {
                fed,
                ..Snapshot::default()
            }
            .block(80, false)[0]
                .clone()
        };
        assert_eq!(fed(Some((200, Some(200)))), "updates   none yet");
        assert_eq!(fed(Some((7, None))), "feed      7 sent");
    }

    #[test]
    fn a_narrow_block() {
        assert_eq!(
            busy().block(34, false)[1..4],
            [
                "updates   3 Duplicate",
                "          1,234,567 Written",
                "          1 VersionConflict"
            ]
        );
        assert_eq!(
            busy().block(11, false)[..5],
            ["feed", " 50 of 200…", "updates", " 3 Duplica…", " 1,234,567…"]
        );
    }

    #[test]
    fn colours_mark_failures_and_names() {
        let block = busy().block(80, true).join("\n");
        assert!(block.contains("\u{1b}[31m1 VersionConflict\u{1b}[0m"), "{block:?}");
        assert!(
            block.contains("\u{1b}[31m1 document\u{1b}[0m") && !block.contains("31m3 Duplicate"),
            "{block:?}"
        );
        assert_eq!(console::strip_ansi_codes(&block), busy().block(80, false).join("\n"));
    }

    #[test]
    fn a_line() {
        assert_eq!(
            busy().line(),
            "updates=1234571 refused=1 versions=1234560 waiting=7 lag_ms=214 batches=61 retries=12 bisections=2 quarantined=2 failures=1 \
             dropped=3 result=FunctionCallFailed \
             Duplicate=3 Written=1234567 VersionConflict=1"
        );
        assert_eq!(
            Snapshot::default().line(),
            "updates=0 refused=0 versions=0 waiting=0 lag_ms=- batches=0 retries=0 bisections=0 quarantined=0 failures=0 dropped=0 result=NoRecordsProcessed"
        );
    }

    #[test]
    fn times_are_short() {
        let short = |millis| short(Duration::from_millis(millis));
        assert_eq!(
            [0, 9_999, 10_000, 119_999, 120_000, 7_199_999, 7_200_000].map(short),
            ["0 ms", "9999 ms", "10 s", "119 s", "2 min", "119 min", "2 h"]
        );
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_the_terminal(
            width in 1usize..200,
            applied in prop::collection::btree_map("[A-Za-z.]{0,40}", any::<u64>().prop_map(|n| n / 8), 0..4),
            rejected in prop::collection::btree_map("[A-Za-z.]{0,40}", any::<u64>().prop_map(|n| n / 8), 0..4),
            numbers: [u64; 6],
            lag in prop::option::of(any::<u32>()),
            error in prop::option::of(".{0,300}"),
        ) {
            let [versions, waiting, batches, retries, bisections, documents] = numbers;
            let lag = lag.map(|lag| Duration::from_millis(lag.into()));
            let snapshot = Snapshot {
                figures: Figures { applied, rejected, versions, waiting, failed: documents, quarantined: documents, lag, recent_updates: versions, recent_versions: waiting, error },
                fed: Some((retries, None)),
                batches,
                retries,
                bisections,
                documents,
                dropped: documents,
                result: LastProcessingResult::InvalidSequenceNumber,
            };
            for row in snapshot.block(width, true) {
                let row = console::strip_ansi_codes(&row);
                prop_assert!(row.chars().count() <= width.max(2), "{row:?}");
                prop_assert!(!row.contains('\n'));
            }
            for pair in snapshot.without_times().line().split(' ') {
                prop_assert!(pair.split_once('=').is_some_and(|(_, value)| value == "-" || value == "InvalidSequenceNumber" || value.parse::<u64>().is_ok()), "{pair}");
            }
        }
    }
}

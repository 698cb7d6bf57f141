//! Time line and counts of versions, with links to them.

use maud::{Markup, html};
use operations::all_versions::tally::OTHERS;
use shared::domain::time::EpochMillis;

use super::{filter::Filter, summary::Summary};
use crate::{page, time, value};

/// Maximum number of names of a group.
const NAMES: usize = 8;

/// Draws the time line. Each bar leads to its versions.
pub(super) fn time_line(summary: &Summary, filter: &Filter) -> Markup {
    let Some([first, last]) = summary.period else {
        return Markup::default();
    };
    let start = first - first.rem_euclid(summary.width);
    let bars = ((last - start) / summary.width + 1).max(1);
    let (step, highest) = (912 / bars, summary.bars.values().max().copied().unwrap_or(1));
    let label = |millis: i64| time::spaced(&time::iso(EpochMillis::new(millis)));
    html! {
        svg.timeline viewBox="0 0 960 120" role="group" aria-label="Versions over time" {
            @for (at, count) in &summary.bars {
                @let [since, until] = summary.ends(*at);
                @let height = (count * 80 / highest).max(2);
                @let text = format!("{}, {} UTC", page::count(*count, "version"), label(*at));
                @let ends = [("since", since.to_string()), ("until", until.to_string())];
                a href=(filter.address("/changes", &ends)) tabindex="-1" aria-label=(text) {
                    rect.live x=(24 + (at - start) / summary.width * step) y=(90 - height) width=((step - 1).clamp(1, 60)) height=(height) { title { (text) } }
                }
            }
            line.axis x1="24" x2="936" y1="92" y2="92" {}
            text.label x="24" y="110" { (label(first)) }
            text.label.end x="936" y="110" { (label(last)) }
        }
    }
}

/// Renders the counts by name. Each name leads to its versions.
pub(super) fn counts(summary: &Summary, filter: &Filter) -> Markup {
    let titles = [
        ("Actor", "actor"),
        ("Reason", "reason"),
        ("Change set", "change_set"),
        ("Entities", "prefix"),
        ("Attribute", "path"),
    ];
    html! {
        div.columns {
            @for ((_, names), (title, parameter)) in summary.tally.groups().zip(titles) {
                @let rows = html! {
                    @for (name, count) in names.iter().take(NAMES) {
                        tr {
                            td {
                                @match name {
                                    Some(name) if *name != OTHERS && !name.is_empty() && name.len() < 500 => a href=(filter.address("/changes", &[(parameter, (*name).to_owned())])) { (value::word(name)) },
                                    Some(name) => (value::word(name)),
                                    None => span.muted { @if parameter == "path" { "not known" } @else { "none" } },
                                }
                            }
                            td.right { (count) }
                        }
                    }
                };
                div {
                    (page::table(title, &[title, "Versions"], &rows))
                    (page::more(names.len().saturating_sub(NAMES), ""))
                }
            }
        }
    }
}

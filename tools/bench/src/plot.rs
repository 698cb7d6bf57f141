//! Plots: bars, as SVG.

use crate::figure::{Figure, rounded};

const OURS: &str = "#B7410E";
const PEER: &str = "#4B6A9B";

/// Returns the file name of a comparison's plot.
pub(crate) fn file_name(comparison: &str) -> String {
    format!("{}.svg", comparison.replace(' ', "-"))
}

/// Returns a pair of bars for each figure and its peer. Only the bars of a pair have the same scale, because units differ.
pub(crate) fn bars<'a>(name: &str, figures: impl IntoIterator<Item = &'a Figure>) -> String {
    let pairs = figures.into_iter().map(|figure| {
        let (ours, peer) = (figure.ours.unwrap_or_default(), figure.peer.unwrap_or_default());
        let longest = ours.max(peer).max(f64::MIN_POSITIVE);
        let peer_name = figure.peer_name.as_ref();
        let peer = peer_name.map(|name| (24, name, peer, peer / longest, PEER));
        [Some((10, &figure.unit, ours, ours / longest, OURS)), peer]
    });
    let bars: Vec<_> = pairs.flatten().flatten().collect();
    let height = 50 + 20 * bars.len();
    let tops = (40..).step_by(20);
    let rows = tops.zip(bars).map(|(top, (indent, label, value, share, colour))| {
        let (base, width, value) = (top + 11, (share * 320.0).ceil(), rounded(value));
        let end = 336.0 + width;
        format!(
            r#"<text x="{indent}" y="{base}">{label}</text>
<rect x="330" y="{top}" width="{width}" height="14" fill="{colour}"/>
<text x="{end}" y="{base}">{value}</text>
"#
        )
    });
    let rows: String = rows.collect();
    format!(
        r#"<svg width="760" height="{height}" font-family="sans-serif" font-size="11" xmlns="http://www.w3.org/2000/svg">
<rect width="760" height="{height}" fill="white"/>
<text x="10" y="22" font-size="15">{name}</text>
{rows}</svg>
"#
    )
}

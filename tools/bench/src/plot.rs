//! Plots, as SVG.

use std::path::Path;

use plotters::{drawing::DrawingAreaErrorKind, prelude::*};

use crate::{
    error::BenchError,
    figure::{Comparison, Figure, Plot, rounded},
};

const WIDTH: u32 = 760;
const FONT: (&str, u32) = ("sans-serif", 13);
const OURS: RGBColor = RGBColor(0xb7, 0x41, 0x0e);
const PEER: RGBColor = RGBColor(0x4b, 0x6a, 0x9b);
const COLOURS: [RGBColor; 6] = [
    OURS,
    PEER,
    RGBColor(0x5b, 0x8c, 0x5a),
    RGBColor(0x8e, 0x5b, 0x8c),
    RGBColor(0x8a, 0x8a, 0x8a),
    RGBColor(0xc9, 0xa2, 0x27),
];

/// Returns the file name of a comparison's plot.
pub(crate) fn file_name(comparison: &str) -> String {
    format!("{}.svg", comparison.replace(' ', "-"))
}

pub(crate) fn draw(comparison: &Comparison, folder: &Path) -> Result<(), BenchError> {
    let path = folder.join(file_name(comparison.name));
    match &comparison.plot {
        Plot::Bars => bars(comparison, &path),
        Plot::Lines { x, y, series } => lines(comparison.name, (x, y), series, &path),
    }?;
    Ok(())
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws each figure and its peer as a pair of bars. Only the bars of a pair have the same scale, because units differ.
fn bars(comparison: &Comparison, path: &Path) -> Drawn {
    let rows: Vec<_> = comparison.figures.iter().flat_map(bars_of).collect();
    let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let height = 50 + 20 * count;
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let text = FONT.into_font().color(&BLACK);
    root.draw(&Text::new(comparison.name, (10, 10), ("sans-serif", 18).into_font()))?;
    let (left, widest) = (330, 320.0);
    for (index, row) in rows.iter().enumerate() {
        let top = 40 + 20 * i32::try_from(index).unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, reason = "a few hundred pixels")]
        let length = (row.share * widest).ceil() as i32;
        root.draw(&Text::new(row.label.as_str(), (10, top), text.clone()))?;
        let colour = if row.is_ours { OURS } else { PEER };
        root.draw(&Rectangle::new(
            [(left, top), (left + length, top + 14)],
            colour.filled(),
        ))?;
        root.draw(&Text::new(row.value.as_str(), (left + length + 6, top), text.clone()))?;
    }
    root.present()
}

struct Bar {
    label: String,
    value: String,
    /// Length relative to the longer bar of its pair.
    share: f64,
    is_ours: bool,
}

fn bars_of(figure: &Figure) -> Vec<Bar> {
    let peer = figure.peer.as_ref().map_or(0.0, |(_, peer)| *peer);
    let longest = figure.ours.max(peer).max(f64::MIN_POSITIVE);
    let bar = |label: String, value: f64, is_ours| Bar {
        label,
        value: rounded(value).to_string(),
        share: value / longest,
        is_ours,
    };
    let mut bars = vec![bar(figure.unit.clone(), figure.ours, true)];
    if let Some((name, peer)) = &figure.peer {
        bars.push(bar(format!("    {name}"), *peer, false));
    }
    bars
}

fn lines(name: &str, axes: (&str, &str), series: &[(String, Vec<(f64, f64)>)], path: &Path) -> Drawn {
    let points = || series.iter().flat_map(|(_, points)| points.iter().copied());
    let (least, most) = points().fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), (x, _)| {
        (least.min(x), most.max(x))
    });
    let highest = points().map(|(_, y)| y).fold(f64::MIN_POSITIVE, f64::max);
    let root = SVGBackend::new(path, (WIDTH, 400)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(name, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d((least..most * 1.05).log_scale(), 0.0..highest * 1.1)?;
    chart
        .configure_mesh()
        .x_desc(axes.0)
        .y_desc(axes.1)
        .label_style(FONT)
        .draw()?;
    for (index, (label, points)) in series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3))?
            .label(label)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .label_font(FONT)
        .draw()?;
    root.present()
}

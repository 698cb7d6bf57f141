//! Plots, as SVG.

use std::path::Path;

use plotters::{drawing::DrawingAreaErrorKind, prelude::*};

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Measured, Plot, rounded},
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

pub(crate) fn draw(name: &str, measured: &Measured, folder: &Path) -> Result<(), BenchError> {
    let path = folder.join(file_name(name));
    let drawn = match &measured.plot {
        Plot::Bars => bars(name, &measured.figures, &path),
        Plot::Lines { x, y, series } => lines(name, (x, y), series, &path),
    };
    drawn.map_err(cannot("draw the plot"))
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws each figure and its peer as a pair of bars. Only the bars of a pair have the same scale, because units differ.
fn bars(name: &str, figures: &[Figure], path: &Path) -> Drawn {
    let pairs = figures.iter().map(|figure| {
        let (ours, peer) = (figure.ours.unwrap_or_default(), figure.peer.unwrap_or_default());
        let longest = ours.max(peer).max(f64::MIN_POSITIVE);
        let peer_name = figure.peer_name.as_ref();
        let peer = peer_name.map(|name| (format!("    {name}"), peer, peer / longest, PEER));
        [Some((figure.unit.clone(), ours, ours / longest, OURS)), peer]
    });
    let bars: Vec<_> = pairs.flatten().flatten().collect();
    let height = 50 + 20 * u32::try_from(bars.len()).unwrap_or_default();
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let text = FONT.into_font().color(&BLACK);
    root.draw(&Text::new(name, (10, 10), ("sans-serif", 18).into_font()))?;
    let (left, widest) = (330, 320.0);
    for (top, (label, value, share, colour)) in (40..).step_by(20).zip(bars) {
        #[allow(clippy::cast_possible_truncation, reason = "a few hundred pixels")]
        let right = left + (share * widest).ceil() as i32;
        root.draw(&Text::new(label, (10, top), text.clone()))?;
        root.draw(&Rectangle::new([(left, top), (right, top + 14)], colour.filled()))?;
        root.draw(&Text::new(rounded(value).to_string(), (right + 6, top), text.clone()))?;
    }
    root.present()
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

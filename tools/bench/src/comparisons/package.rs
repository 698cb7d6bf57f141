//! The size of each function as it is uploaded.

use std::{fs, io::Write as _, path::Path};

use zip::{ZipWriter, write::SimpleFileOptions};

use super::Bench;
use crate::{
    error::BenchError,
    figure::{Comparison, Figure, Plot, Target},
    subject::Role,
};

/// In MB, which are 1,000,000 bytes.
const MOST: f64 = 4.0;

pub(super) fn measure(bench: &Bench) -> Result<Comparison, BenchError> {
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let zip = bench.logs.join(format!("{}.zip", role.name()));
        let size = pack(&bench.subjects.ours.start(role).program, &zip)?;
        figures.push(Figure::new(format!("MB, {}", role.name()), size).aiming_at(Target::AtMost(MOST)));
    }
    Ok(Comparison {
        name: "package",
        figures,
        plot: Plot::Bars,
    })
}

/// Packs a binary as `bootstrap`, as cargo-lambda and SAM do.
#[allow(clippy::cast_precision_loss, reason = "a few million")]
fn pack(binary: &Path, zip: &Path) -> Result<f64, BenchError> {
    if let Some(folder) = zip.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut writer = ZipWriter::new(fs::File::create(zip)?);
    writer.start_file("bootstrap", SimpleFileOptions::default().unix_permissions(0o755))?;
    writer.write_all(&fs::read(binary)?)?;
    writer.finish()?;
    Ok(fs::metadata(zip)?.len() as f64 / 1e6)
}

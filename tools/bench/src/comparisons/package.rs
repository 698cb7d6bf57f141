//! Size of each function as a zip file, as it is uploaded.

use std::{fs, io::Write as _, path::Path};

use zip::{ZipWriter, write::SimpleFileOptions};

use crate::{
    error::BenchError,
    figure::{Figure, Target},
    harness::{Bench, Measured},
    subject::Role,
};

/// In MB of 1,000,000 bytes.
const MAX_SIZE: f64 = 3.5;

pub(super) fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let zip = bench.logs.join(format!("{}.zip", role.name()));
        let size = pack(&bench.subjects.ours.start(role).program, &zip)?;
        figures.push(Figure::new(format!("MB, {}", role.name()), size).with_target(Target::AtMost(MAX_SIZE)));
    }
    Ok(figures.into())
}

/// Packs a binary as `bootstrap`, as cargo-lambda and SAM do, and returns the size in MB.
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

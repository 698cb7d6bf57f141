//! Size of each function as a zip file, as it is uploaded.

use std::{fs, io::Write as _, path::Path};

use zip::{ZipWriter, write::SimpleFileOptions};

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Target, megabytes},
    harness::Bench,
    subject::Role,
};

/// In MB of 1,000,000 bytes.
const MAX_SIZE: f64 = 3.2;

pub(super) fn measure(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    fs::create_dir_all(&bench.logs)?;
    let figures = Role::BOTH.map(|role| {
        let zip = bench.logs.join(format!("{}.zip", role.name()));
        pack(bench.subjects[0].program(role), &zip).map_err(cannot("create the zip file"))?;
        let size = megabytes(fs::metadata(&zip)?.len());
        Ok(Figure::new(format!("MB, {}", role.name()), size).with_target(Target::AtMost(MAX_SIZE)))
    });
    figures.into_iter().collect()
}

/// Packs a binary as `bootstrap`, as cargo-lambda and SAM do.
fn pack(binary: &Path, zip: &Path) -> zip::result::ZipResult<()> {
    let mut writer = ZipWriter::new(fs::File::create(zip)?);
    writer.start_file("bootstrap", SimpleFileOptions::default().unix_permissions(0o755))?;
    writer.write_all(&fs::read(binary)?)?;
    writer.finish().map(drop)
}

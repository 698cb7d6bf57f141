//! Size of each function as a zip file, as it is uploaded, and its effect on a start.

use std::{fs, io::Write as _, path::Path};

use zip::{ZipWriter, write::SimpleFileOptions};

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Target},
    harness::{Bench, LATENCY, Measured, in_turn},
    limits::{Controllers, Limits},
    stub::Stub,
    subject::{Role, Subject},
    workload::MEMORY_SIZES,
};

/// In MB of 1,000,000 bytes.
const MAX_SIZE: f64 = 3.5;

/// Bytes that are added to a program, to measure the effect of its size.
const MORE: usize = 4_000_000;

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let mut figures = Vec::new();
    for role in Role::BOTH {
        let zip = bench.logs.join(format!("{}.zip", role.name()));
        let size = pack(&bench.subjects.ours.start(role).program, &zip)?;
        figures.push(Figure::new(format!("MB, {}", role.name()), size).with_target(Target::AtMost(MAX_SIZE)));
    }
    if let Some(controllers) = bench.controllers("the effect of a package's size") {
        for role in Role::BOTH {
            figures.push(effect_of_size(bench, &controllers, role).await?);
        }
    }
    Ok(figures.into())
}

/// Compares the start of a function with that of a larger copy, with the smallest CPU share.
async fn effect_of_size(bench: &Bench, controllers: &Controllers, role: Role) -> Result<Figure, BenchError> {
    let ours = &bench.subjects.ours;
    let larger = bench.logs.join(format!("{}-larger", role.name()));
    enlarge(&ours.start(role).program, &larger)?;
    let subjects = [ours.clone(), ours.with_program(role, larger)];
    let stub = Stub::serve(LATENCY, Some(&bench.certificate))?;
    let memory_mb = MEMORY_SIZES[0];
    let start = async |subject: &Subject| {
        let hosted = bench.host_limited(subject, role, &stub, Limits::create(controllers, memory_mb)?)?;
        Ok(hosted.cold_start(&events::empty()).await?.to_first_poll())
    };
    let starts = in_turn(subjects.iter(), bench.size(20, 1), start).await?;
    let unit = format!("ms to the first poll, {memory_mb} MB, {}", role.name());
    let figure = Figure::new(unit, starts.percentile_of(0, 0.5));
    Ok(figure
        .compared_with("4 MB larger", starts.percentile_of(1, 0.5))
        .with_target(Target::RatioAtLeast(0.95)))
}

/// Copies a program, with bytes at its end that do not compress.
fn enlarge(program: &Path, larger: &Path) -> Result<(), BenchError> {
    let mut bytes = fs::read(program)?;
    // A linear congruential generator.
    let mut state = 1_u64;
    bytes.extend((0..MORE).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    }));
    fs::write(larger, bytes)?;
    fs::set_permissions(larger, fs::metadata(program)?.permissions())?;
    Ok(())
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

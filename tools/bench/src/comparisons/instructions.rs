//! Instructions of one record and one update, counted by Valgrind: unlike times, they hardly depend on the machine and its load. So a
//! small change for the worse is found, which is why CI measures them.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Target},
    harness::Bench,
    print_error,
    stub::Stub,
    subject::{Role, Subject, find_program},
};

/// Recorded counts on x86-64, from this comparison, in the order of [`Role::BOTH`].
const RECORDED: [f64; 2] = [RECORD, UPDATE];
const RECORD: f64 = 343_400.0;
const UPDATE: f64 = 1_097_000.0;
/// Maximum count beside the recorded one.
const MAX_GROWTH: f64 = 1.05;
/// Maximum time in which Valgrind ends a process and writes its counts.
const MAX_END: Duration = Duration::from_secs(30);

pub(super) async fn measure(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let Some(valgrind) = find_program("valgrind").filter(|_| cfg!(target_arch = "x86_64")) else {
        print_error("note: instructions is skipped: it needs Valgrind on x86-64");
        return Ok(Vec::new());
    };
    let mut figures = Vec::new();
    for (role, recorded) in Role::BOTH.into_iter().zip(RECORDED) {
        let (what, items) = match role {
            Role::Stream => ("a record", 100),
            Role::Writer => ("an update", 10),
        };
        // Both counts contain the start of the process.
        let [few, many] = [5, 25];
        let before = counted(bench, &valgrind, (role, items), few).await?;
        let after = counted(bench, &valgrind, (role, items), many).await?;
        #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
        let each = (after - before) / ((many - few) * items) as f64;
        let figure = Figure::new(format!("instructions {what}, {}", role.name()), each);
        figures.push(figure.with_target(Target::AtMost((recorded * MAX_GROWTH).round())));
    }
    Ok(figures)
}

/// Returns the instructions of a process from its start to its end, with so many invocations.
async fn counted(
    bench: &Bench,
    valgrind: &Path,
    (role, items): (Role, usize),
    invocations: usize,
) -> Result<f64, BenchError> {
    let ours = &bench.subjects[0];
    let counts = std::path::absolute(bench.logs.join(format!("{}.callgrind", role.name())))?;
    fs::create_dir_all(&bench.logs)?;
    let _ = fs::remove_file(&counts);
    let subject = valgrind_of(ours, role, valgrind, &counts);
    let stub = Stub::serve(Duration::ZERO, None)?;
    let hosted = bench.host(&subject, role, &stub, None)?;
    let event = events::event(role, items, ours);
    for _ in 0..invocations {
        hosted.invoke(&event).await?;
    }
    let pid = i32::try_from(hosted.process()?.pid).unwrap_or_default();
    kill(Pid::from_raw(pid), Signal::SIGTERM).map_err(std::io::Error::from)?;
    let began = Instant::now();
    while began.elapsed() < MAX_END {
        if let Some(total) = total(&fs::read_to_string(&counts).unwrap_or_default()) {
            return Ok(total);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counts = counts.display();
    Err(BenchError::Failed(format!("Valgrind has not written {counts}")))
}

/// Returns a function that runs in Valgrind.
fn valgrind_of(ours: &Subject, role: Role, valgrind: &Path, counts: &Path) -> Subject {
    let counts = format!("--callgrind-out-file={}", counts.display());
    let program = ours.program(role).display().to_string();
    let arguments = vec!["--tool=callgrind".to_owned(), counts, program];
    ours.clone().with_program(valgrind.to_owned(), arguments)
}

/// Returns the number of instructions in a file of Callgrind that is complete.
fn total(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_file_has_a_total() {
        assert_eq!(total("events: Ir\nfn=(1)\n1 5\n\ntotals: 12345\n"), Some(12_345.0));
        assert_eq!(total("events: Ir\nfn=(1)\n1 5\n"), None);
    }
}

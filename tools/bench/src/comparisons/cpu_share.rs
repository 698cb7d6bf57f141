//! Cold starts and invocations with the CPU share and memory of a Lambda function, over TLS, if each request takes 5 ms.

use std::time::{Duration, Instant};

use crate::{
    error::BenchError,
    figure::{Figure, Plot, Target, mean, median, millis},
    harness::{Bench, LATENCY, Measured, in_turn},
    hosted::Hosted,
    limits::{Controllers, Limits, Share},
    stub::Stub,
    subject::{PYTHON, Role, Subject},
    workload::{self, FULL_BATCH, MEMORY_SIZES, RECORD, Workload},
};

/// Size at which the targets apply: the smallest.
const TARGET_MB: u32 = MEMORY_SIZES[0];
/// Minimum time of the warm invocations of one workload.
const WARM_TIME: Duration = Duration::from_millis(300);

/// A function in one process, in milliseconds.
struct Run {
    first_poll: f64,
    first_response: f64,
    /// Mean of the warm invocations of each workload.
    warm: Vec<f64>,
}

impl Run {
    /// From the first poll on. Lambda bills it, unlike the initialization, at the function's share.
    fn first_invocation(&self) -> f64 {
        self.first_response - self.first_poll
    }

    /// The first workload is that of the first invocation.
    fn first_warm(&self) -> f64 {
        self.warm.first().copied().unwrap_or(f64::NAN)
    }

    /// A subject that fails with these limits.
    fn failed() -> Self {
        Self {
            first_poll: f64::NAN,
            first_response: f64::NAN,
            warm: Vec::new(),
        }
    }
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let Some(controllers) = bench.controllers("CPU share") else {
        return Ok(Vec::new().into());
    };
    let stub = Stub::serve(LATENCY, Some(&bench.certificate))?;
    let time = bench.size(WARM_TIME, Duration::ZERO);
    let sizes = bench.size(&MEMORY_SIZES[..], &MEMORY_SIZES[2..3]);
    let (mut figures, mut series) = (Vec::new(), Vec::new());
    for role in Role::BOTH {
        let workloads: Vec<_> = workload::of(role)
            .filter(|workload| workload.name != FULL_BATCH.name)
            .collect();
        let mut lines: Vec<_> = workloads
            .iter()
            .map(|workload| (workload.name.to_owned(), Vec::new()))
            .collect();
        for &memory_mb in sizes {
            let size = Size {
                bench,
                role,
                stub: &stub,
                controllers: &controllers,
                memory_mb,
            };
            let runs = in_turn(bench.subjects.all(), bench.size(3, 1), |subject| {
                size.run(subject, &workloads, time)
            })
            .await?;
            let unit = |what: &str| format!("ms {what}, {memory_mb} MB, {}", role.name());
            let is_target = memory_mb == TARGET_MB;
            let targets = |target| if is_target { vec![(PYTHON, target)] } else { Vec::new() };
            let first_poll = targets(Target::AtMost(80.0));
            figures.extend(runs.medians(&unit("to the first poll"), |run| run.first_poll, &first_poll));
            figures.extend(runs.medians(
                &unit("to the first response"),
                |run| run.first_response,
                &targets(Target::RatioAtMost(0.03)),
            ));
            let warm = runs.percentile_of_ours(0.5, Run::first_warm);
            let first = runs.percentile_of_ours(0.5, Run::first_invocation);
            figures.push(Figure::new(unit("of the first invocation"), first).compared_with("a warm one", warm));
            let first = median(&size.after_initialization().await?);
            let what = "of the first invocation, initialized with a full CPU";
            figures.push(with_target_if(
                is_target,
                Target::RatioAtMost(1.5),
                Figure::new(unit(what), first).compared_with("a warm one", warm),
            ));
            for (index, workload) in workloads.iter().enumerate() {
                let warm = |run: &Run| run.warm.get(index).copied().unwrap_or(f64::NAN);
                figures.extend(runs.medians(&unit(&format!("of a {}", workload.name)), warm, &[]));
                lines[index]
                    .1
                    .push((f64::from(memory_mb), runs.percentile_of_ours(0.5, warm)));
            }
            if role == Role::Stream && !bench.quick {
                figures.extend(size.full_batch().await?);
            }
        }
        series.extend(lines);
    }
    figures.retain(|figure| figure.peer.as_ref().is_none_or(|(_, value)| !value.is_nan()));
    let plot = Plot::Lines {
        x: "MB of memory",
        y: "ms of a warm invocation",
        series,
    };
    Ok(Measured { figures, plot })
}

fn with_target_if(is_target: bool, target: Target, figure: Figure) -> Figure {
    Figure {
        target: is_target.then_some(target),
        ..figure
    }
}

/// One memory size of a function.
struct Size<'a> {
    bench: &'a Bench,
    role: Role,
    stub: &'a Stub,
    controllers: &'a Controllers,
    memory_mb: u32,
}

impl Size<'_> {
    async fn run(&self, subject: &Subject, workloads: &[Workload], time: Duration) -> Result<Run, BenchError> {
        let Self {
            bench, role, memory_mb, ..
        } = *self;
        let limits = Limits::create(self.controllers, memory_mb)?;
        let hosted = bench.host_limited(subject, role, self.stub, limits)?;
        match run(&hosted, subject, workloads, time).await {
            // For example, more memory than the limit.
            Err(error) if !subject.is_ours => {
                let (name, subject) = (role.name(), subject.name);
                bench
                    .progress
                    .note(&format!("{name} of {subject} fails with {memory_mb} MB: {error}"));
                Ok(Run::failed())
            }
            result => result,
        }
    }

    /// Measures batches of 1,000 records in one process of each subject: one takes half a minute in a peer with the smallest share.
    async fn full_batch(&self) -> Result<Vec<Figure>, BenchError> {
        let runs = in_turn(self.bench.subjects.all(), 1, |subject| {
            self.run(subject, &[RECORD, FULL_BATCH], Duration::ZERO)
        })
        .await?;
        let unit = format!(
            "ms of a {}, {} MB, {}",
            FULL_BATCH.name,
            self.memory_mb,
            self.role.name()
        );
        Ok(runs.medians(&unit, |run| run.warm.get(1).copied().unwrap_or(f64::NAN), &[]))
    }

    /// Returns the times of our first invocation in milliseconds, if the function has a full CPU until its first poll, as on Lambda.
    async fn after_initialization(&self) -> Result<Vec<f64>, BenchError> {
        let Self { bench, role, .. } = *self;
        let ours = &bench.subjects.ours;
        let event = workload::of(role)
            .next()
            .map(|workload| workload.event(ours))
            .unwrap_or_default();
        let mut times = Vec::new();
        for _ in 0..bench.size(10, 1) {
            let limits = Limits::unlimited_cpu(self.controllers, self.memory_mb)?;
            let share = limits.share();
            let hosted = bench.host_limited(ours, role, self.stub, limits)?;
            let (responded, ready) = tokio::try_join!(hosted.invoke(&event), limit_when_ready(&hosted, &share))?;
            times.push(millis(responded.duration_since(ready)));
        }
        Ok(times)
    }
}

/// Limits the CPU from the first poll of the process on, and returns the time of the poll.
async fn limit_when_ready(hosted: &Hosted, share: &Share) -> Result<Instant, BenchError> {
    loop {
        if let Some(ready) = hosted.process().ok().and_then(|process| process.ready) {
            share.apply()?;
            return Ok(ready);
        }
        // Tokio's timer would add up to 2 ms, in which the invocation would be unlimited.
        std::thread::sleep(Duration::from_micros(50));
        tokio::task::yield_now().await;
    }
}

async fn run(hosted: &Hosted, subject: &Subject, workloads: &[Workload], time: Duration) -> Result<Run, BenchError> {
    let mut run = Run::failed();
    for (index, workload) in workloads.iter().enumerate() {
        let event = workload.event(subject);
        if index == 0 {
            let start = hosted.cold_start(&event).await?;
            run.first_poll = start.to_first_poll();
            run.first_response = start.to_first_response();
        } else {
            // The first invocation with this event opens further connections.
            hosted.invoke(&event).await?;
        }
        run.warm.push(mean(&hosted.times(&event, 1, time).await?));
    }
    Ok(run)
}

//! Cold starts and invocations with the CPU share and memory of a Lambda function, over TLS, if each request takes 5 ms.

use std::time::{Duration, Instant};

use crate::{
    error::BenchError,
    events,
    figure::{Figure, Target, median, millis},
    harness::{Bench, LATENCY, in_turn},
    hosted::Hosted,
    limits::{Controllers, Limits, MEMORY_SIZES},
    print_error,
    stub::Stub,
    subject::{Kind, PYTHON, Role, Subject},
};

/// Size at which the targets apply: the smallest.
const TARGET_MB: u32 = MEMORY_SIZES[0];
/// Minimum time of the warm invocations of one workload.
const WARM_TIME: Duration = Duration::from_millis(300);

/// A name of an event, and the number of its updates or records.
type Workload = (&'static str, usize);

/// Returns the workloads of a function, beginning with the workload of its first invocation.
fn workloads(role: Role) -> [Workload; 2] {
    match role {
        Role::Writer => [("direct", 1), ("SQS batch of 10", 10)],
        Role::Stream => [("stream batch of 1", 1), ("stream batch of 25", 25)],
    }
}

/// Values of a run of one process, in milliseconds: those of [`Hosted::cold_start`], and the mean time of the warm invocations of each workload.
type Run = [f64; 5];
/// Indexes of the last two.
const WARM: [usize; 2] = [3, 4];

pub(super) async fn measure(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let controllers = match Controllers::find() {
        Ok(controllers) => controllers,
        Err(error) => {
            print_error(&format!("note: CPU share is skipped: {error}"));
            return Ok(Vec::new());
        }
    };
    let stub = Stub::serve(LATENCY, Some(&bench.certificate))?;
    let mut figures = Vec::new();
    for role in Role::BOTH {
        for &memory_mb in bench.size(&MEMORY_SIZES[..], &MEMORY_SIZES[1..]) {
            let size = Size {
                bench,
                role,
                stub: &stub,
                controllers: &controllers,
                memory_mb,
            };
            figures.extend(size.figures().await?);
        }
    }
    figures.retain(|figure: &Figure| figure.peer.is_none_or(|peer| !peer.is_nan()));
    Ok(figures)
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
    /// Returns the figures of all subjects.
    async fn figures(&self) -> Result<Vec<Figure>, BenchError> {
        let bench = self.bench;
        let runs = in_turn(bench.simple(), bench.size(3, 1), |subject| self.run(subject)).await?;
        let target = |target| (self.memory_mb == TARGET_MB).then_some((PYTHON, target));
        let mut figures = Vec::new();
        for (index, (what, most)) in [
            ("to the first poll", Target::AtMost(80.0)),
            ("to the first response", Target::RatioAtMost(0.012)),
        ]
        .into_iter()
        .enumerate()
        {
            figures.extend(runs.figures(&self.unit(what), 0.5, index, target(most).as_slice()));
        }
        let warm = runs.percentile(0, 0.5, WARM[0]);
        let first = |what: &str, millis: f64| Figure::new(self.unit(what), millis).compared_with("a warm one", warm);
        figures.push(first("of the first invocation", runs.percentile(0, 0.5, 2)));
        let initialized = first(
            "of the first invocation, initialized with a full CPU",
            self.after_initialization().await?,
        );
        figures.push(match target(Target::RatioAtMost(1.5)) {
            Some((_, target)) => initialized.with_target(target),
            None => initialized,
        });
        for (index, (name, _)) in WARM.into_iter().zip(workloads(self.role)) {
            figures.extend(runs.figures(&self.unit(&format!("of a {name}")), 0.5, index, &[]));
        }
        Ok(figures)
    }

    fn unit(&self, what: &str) -> String {
        format!("ms {what}, {} MB, {}", self.memory_mb, self.role.name())
    }

    async fn run(&self, subject: &Subject) -> Result<Run, BenchError> {
        let Self { role, memory_mb, .. } = *self;
        let time = self.bench.size(WARM_TIME, Duration::ZERO);
        let limits = Limits::create(self.controllers, memory_mb)?;
        limits.limit_cpu()?;
        let hosted = self.bench.host(subject, role, self.stub, Some(limits))?;
        let events = workloads(role).map(|(_, items)| events::event(role, items, subject));
        let run = async {
            let [to_poll, to_response, invocation] = hosted.cold_start(&events[0]).await?;
            let first = hosted.mean_time(&events[0], time).await?;
            // The first invocation with this event opens further connections.
            hosted.invoke(&events[1]).await?;
            let second = hosted.mean_time(&events[1], time).await?;
            Ok([to_poll, to_response, invocation, first, second])
        };
        match run.await {
            // For example, more memory than the limit.
            Err(error) if subject.kind != Kind::Ours => {
                let (name, subject) = (role.name(), subject.name);
                print_error(&format!("note: {name} of {subject} fails with {memory_mb} MB: {error}"));
                Ok([f64::NAN; 5])
            }
            result => result,
        }
    }

    /// Returns our median time of the first invocation in milliseconds, if the function has a full CPU until its first poll, as on Lambda.
    async fn after_initialization(&self) -> Result<f64, BenchError> {
        let ours = &self.bench.subjects[0];
        let event = events::event(self.role, 1, ours);
        let mut times = Vec::new();
        for _ in 0..self.bench.size(10, 1) {
            let limits = Limits::create(self.controllers, self.memory_mb)?;
            let hosted = self.bench.host(ours, self.role, self.stub, Some(limits))?;
            let (responded, ready) = tokio::try_join!(hosted.invoke(&event), limit_when_ready(&hosted))?;
            times.push(millis(responded.duration_since(ready)));
        }
        Ok(median(times))
    }
}

/// Limits the CPU from the first poll of the process on, and returns the time of the poll.
async fn limit_when_ready(hosted: &Hosted) -> Result<Instant, BenchError> {
    loop {
        if let Some(ready) = hosted.process().ok().and_then(|process| process.ready) {
            hosted.limit_cpu()?;
            return Ok(ready);
        }
        // Tokio's timer would add up to 2 ms, in which the invocation would be unlimited.
        std::thread::sleep(Duration::from_micros(50));
        tokio::task::yield_now().await;
    }
}

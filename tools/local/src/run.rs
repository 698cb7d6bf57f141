//! The command: starts the stack, feeds it, waits for the histories, shows and dumps the table, and serves.

use std::{
    convert::Infallible,
    fs::File,
    io::{self, BufReader},
    path::PathBuf,
    pin::Pin,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{Stream, stream};
use history_console::{Console, Table};
use shared::{
    domain::{Item, entity::is_reserved, keys::partition_key_of},
    dynamodb::read::scan_items::ScanError,
    logging::chain,
};
use thiserror::Error;
use tokio::time::Instant;

use crate::{
    args::Args,
    attach::{AttachError, Attachment},
    feed::{self, FeedError, Line},
    report::{
        attached, commands, dump,
        history::{self, Collection, Collections},
        screen::{Screen, TakeSnapshot},
        show,
        view::Snapshot,
    },
    stack::{self, Options, Stack, StackError},
    template::{Template, TemplateError},
};

/// Updates to feed without --feed.
const SAMPLE: &str = include_str!("../sample.jsonl");
/// Default port of the history browser.
const CONSOLE_PORT: u16 = 8100;
/// Minimum interval between two checks of the histories, also as a multiple of the time of a check.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
const CHECK_PAUSE: u32 = 4;

/// Runs the command, and prints an error in one line.
pub async fn main(args: Args, program: PathBuf) -> ExitCode {
    let stopped = stop_signal();
    let outcome = tokio::select! {
        outcome = run(&args, program) => outcome,
        () = stopped => Ok(ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        let _ = terminal::write_line(&mut io::stderr(), &format!("error: {}", chain(&error)));
        ExitCode::FAILURE
    })
}

async fn run(args: &Args, program: PathBuf) -> Result<ExitCode, RunError> {
    let path = args.template.clone().map_or_else(find_template, Ok)?;
    let mut template = Template::read(&path, &args.parameters).map_err(|error| RunError::Template(path, error))?;
    template.mapping.startup = Duration::from_secs(args.mapping_startup.into());
    if let Some(path) = &args.attach {
        Attachment::read(path)?.attach(&mut template)?;
    }
    let feed = Feed::open(args)?;
    let stack = Stack::start(Options {
        template,
        dynamodb_port: args.dynamodb_port,
        lambda_port: args.lambda_port,
        data_dir: args.data_dir.clone(),
        failed: args.failed.clone(),
        sqs_endpoint: args.sqs_endpoint.clone(),
        s3_endpoint: args.s3_endpoint.clone(),
        program,
        bootstraps: args.bootstraps.iter().cloned().collect(),
    })
    .await?;
    let progress = Arc::new(FeedProgress::default());
    let screen = Screen::start(take_snapshot(&stack, progress.clone()));
    // The console shows entities of the project's own tables.
    let has_console = !args.once && args.attach.is_none();
    let console = has_console.then(|| console(args, &stack)).transpose()?;
    if !args.once {
        screen.print(&commands::endpoints(&stack, console.as_ref()));
    }
    let served = serve(args, &stack, console.as_ref(), feed, &progress, &screen);
    let complete = tokio::select! {
        // First, so that no line is lost at the end.
        biased;
        never = print_drops(&stack, &screen) => match never {},
        complete = served => complete?,
    };
    screen.finish();
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints each failure document that cannot be stored.
async fn print_drops(stack: &Stack, screen: &Screen) -> Infallible {
    loop {
        screen.error(&stack.mapping.destination.failed().await);
    }
}

/// Feeds the stack and shows the histories. With `--once`, returns `true` if they are complete, otherwise serves.
async fn serve(
    args: &Args,
    stack: &Stack,
    console: Option<&Console>,
    feed: Feed,
    progress: &FeedProgress,
    screen: &Screen,
) -> Result<bool, RunError> {
    match send(stack, feed, progress, screen).await {
        // The stack is usable without the rest of the feed.
        Err(RunError::Line(error @ FeedError::Failed(..))) if !args.once => {
            screen.error(&format!("{}; the rest of the feed is not sent", chain(&error)));
        }
        sent => sent?,
    }
    let within = args.once.then(|| Duration::from_secs(args.timeout));
    let collections = wait(stack, within).await?;
    screen.print(show::collections(&collections).trim_end());
    if let Some(path) = &args.dump {
        dump::write(path, &collections).map_err(|error| RunError::Dump(path.clone(), error))?;
    }
    let complete = report(stack, &collections, screen);
    if args.once {
        return Ok(complete);
    }
    screen.print(&match (&args.attach, stack.store.attached_table()) {
        (Some(path), Some(table)) => attached::to_try(table, stack.dynamodb_endpoint(), path),
        _ => commands::to_try(stack, console),
    });
    std::future::pending().await
}

fn console(args: &Args, stack: &Stack) -> Result<Console, RunError> {
    let listener = match args.console_port {
        Some(port) => stack::listen(port)?,
        None => stack::listen(CONSOLE_PORT).or_else(|_| stack::listen(0))?,
    };
    let failures = stack.failures();
    let client = aws_sdk_dynamodb::Client::new(&stack.config);
    let console = Console::of_table(
        listener,
        Table {
            client: &client,
            sdk: stack.config.clone(),
            endpoint_url: stack.dynamodb_endpoint(),
            name: &stack.table,
            digits: stack.digits,
            history: stack.store.own_history().cloned(),
            failures: &failures,
            s3_endpoint_url: args.s3_endpoint.as_deref(),
        },
    );
    console.map_err(RunError::Console)
}

#[derive(Debug, Default)]
struct FeedProgress {
    sent: AtomicU64,
    /// Number of updates, or 0 if unknown.
    total: AtomicU64,
    /// `true` while updates are sent.
    active: AtomicBool,
}

fn take_snapshot(stack: &Stack, feed: Arc<FeedProgress>) -> TakeSnapshot {
    let (activity, mapping) = (stack.activity.clone(), stack.mapping.clone());
    Arc::new(move || {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let active = feed.active.load(Ordering::Relaxed);
        Snapshot {
            figures: activity.figures(),
            fed: active.then(|| (count(&feed.sent), Some(count(&feed.total)).filter(|total| *total > 0))),
            batches: count(&mapping.counters.invocations),
            retries: count(&mapping.counters.retries),
            bisections: count(&mapping.counters.bisections),
            documents: count(&mapping.counters.documents),
            dropped: count(&mapping.counters.dropped),
            result: mapping.counters.last_processing_result(),
        }
    })
}

/// Finds the template in the current folder or the nearest parent.
fn find_template() -> Result<PathBuf, RunError> {
    let here = std::env::current_dir().map_err(|_| RunError::NoTemplate)?;
    let candidates = here.ancestors().map(|folder| folder.join("template.yaml"));
    candidates
        .into_iter()
        .find(|path| path.is_file())
        .ok_or(RunError::NoTemplate)
}

enum Feed {
    Sample,
    /// A file, parsed completely before the stack starts.
    File(Vec<Line>),
    /// Standard input, parsed as it arrives.
    StandardInput,
}

impl Feed {
    fn open(args: &Args) -> Result<Self, RunError> {
        match &args.feed {
            // Other programs write the items of an attached table.
            None if args.attach.is_some() => Ok(Self::File(Vec::new())),
            None => Ok(Self::Sample),
            Some(path) if path.as_os_str() == "-" => Ok(Self::StandardInput),
            Some(path) => {
                let file = File::open(path).map_err(|error| RunError::Feed(path.clone(), error))?;
                Ok(Self::File(feed::read(BufReader::new(file)).collect::<Result<_, _>>()?))
            }
        }
    }
}

/// Returns `true` for an item that belongs to no entity, such as the width of version keys.
fn is_own(item: &Item) -> bool {
    partition_key_of(item).is_some_and(is_reserved)
}

/// Sends the feed. The sample is sent only if the table is empty.
async fn send(stack: &Stack, feed: Feed, progress: &FeedProgress, screen: &Screen) -> Result<(), RunError> {
    let lines = match feed {
        Feed::StandardInput => None,
        Feed::File(lines) => Some(lines),
        // The library's own items are no content.
        Feed::Sample if stack.store.scan_items().await?.iter().any(|item| !is_own(item)) => return Ok(()),
        Feed::Sample => Some(feed::read(SAMPLE.as_bytes()).collect::<Result<_, _>>()?),
    };
    let total = lines.as_ref().map_or(0, Vec::len) as u64;
    progress.total.store(total, Ordering::Relaxed);
    progress.active.store(true, Ordering::Relaxed);
    let lines: Pin<Box<dyn Stream<Item = _>>> = if let Some(lines) = lines {
        Box::pin(stream::iter(lines.into_iter().map(Ok)))
    } else {
        let mut lines = feed::standard_input();
        Box::pin(stream::poll_fn(move |context| lines.poll_recv(context)))
    };
    let sent = || {
        progress.sent.fetch_add(1, Ordering::Relaxed);
    };
    let summary = feed::send(&stack.lambda, lines, sent).await;
    progress.active.store(false, Ordering::Relaxed);
    let summary = summary?;
    let outcomes: Vec<_> = summary
        .outcomes
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if !outcomes.is_empty() {
        screen.status(&format!("fed: {}", outcomes.join(", ")));
    }
    for (number, message) in &summary.conflicts {
        screen.status(&format!("line {number} was rejected: {message}"));
    }
    Ok(())
}

/// Waits until every history is complete or the timeout has passed. Without a timeout, records that failed also end the wait,
/// and records in quarantine do not prolong it: they do not complete a history.
async fn wait(stack: &Stack, timeout: Option<Duration>) -> Result<Collections, RunError> {
    let started = Instant::now();
    loop {
        let read = Instant::now();
        let collections = history::collect(stack.store.scan_items().await?, stack.digits);
        let missing = history::missing(&collections, stack.digits);
        let counters = &stack.mapping.counters;
        let failed = [&counters.documents, &counters.dropped].map(|counter| counter.load(Ordering::Relaxed)) != [0, 0];
        // A version may be stored before its invocation has ended.
        let is_idle = stack.activity.figures().waiting == 0;
        let is_quarantined = |pk: &String| collections.get(pk).is_some_and(|items| items.quarantined() > 0);
        let timed_out = match timeout {
            Some(timeout) => started.elapsed() >= timeout,
            None => failed || (is_idle && missing.keys().all(is_quarantined)),
        };
        let settled = missing.is_empty() && is_idle;
        if settled || timed_out {
            return Ok(collections);
        }
        // A check reads the whole table, and delays the versions for which it waits.
        tokio::time::sleep(CHECK_INTERVAL.max(read.elapsed() * CHECK_PAUSE)).await;
    }
}

/// Prints the missing versions and the failed records. Returns `true` if no version is missing and no record was dropped.
fn report(stack: &Stack, collections: &Collections, screen: &Screen) -> bool {
    let missing = history::missing(collections, stack.digits);
    for (pk, missing) in &missing {
        screen.error(&format!(
            "the history of {pk} is not complete: {}",
            abbreviated(missing)
        ));
    }
    let quarantined: usize = collections.values().map(Collection::quarantined).sum();
    if quarantined > 0 {
        screen.error(&format!(
            "{quarantined} record(s) in quarantine: vzero --endpoint-url {} quarantine shows them",
            stack.dynamodb_endpoint()
        ));
    }
    let documents = stack.mapping.counters.documents.load(Ordering::Relaxed);
    if documents > 0 {
        screen.error(&format!("{documents} failure document(s) in {}", stack.failures()));
    }
    let dropped = stack.mapping.counters.dropped.load(Ordering::Relaxed);
    if dropped > 0 {
        screen.error(&format!(
            "{dropped} record(s) were dropped, and are in no failure document"
        ));
    }
    missing.is_empty() && dropped == 0
}

fn abbreviated(missing: &[String]) -> String {
    const MAX_SHOWN: usize = 20;
    match missing.len().checked_sub(MAX_SHOWN) {
        Some(more @ 1..) => format!("{} and {more} more", missing[..MAX_SHOWN].join(", ")),
        _ => missing.join(", "),
    }
}

async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

#[derive(Debug, Error)]
pub enum RunError {
    #[error("no template.yaml in this folder or a parent: pass --template FILE")]
    NoTemplate,
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error("cannot run the template {0}")]
    Template(PathBuf, #[source] TemplateError),
    #[error("{0} cannot be read")]
    Feed(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Line(#[from] FeedError),
    #[error(transparent)]
    Stack(#[from] StackError),
    #[error(transparent)]
    Scan(#[from] ScanError),
    #[error("cannot start the history browser")]
    Console(#[source] io::Error),
    #[error("{0} cannot be written")]
    Dump(PathBuf, #[source] io::Error),
}

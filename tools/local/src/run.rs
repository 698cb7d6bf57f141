//! What the command does: start, feed, wait, show, dump, serve.

use std::{
    fs::File,
    io::{self, BufReader, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    pin::Pin,
    process::ExitCode,
    time::Duration,
};

use futures::{Stream, stream};
use indicatif::{ProgressBar, ProgressStyle};
use shared::{dynamodb::scan_items::ScanError, logging::chain};
use thiserror::Error;
use tokio::time::Instant;

use crate::{
    args::Args,
    dump,
    feed::{self, FeedError, Line},
    history::{self, Collections},
    show,
    stack::{Options, Stack, StackError},
    template::{Template, TemplateError},
};

/// The updates that are fed where no others are given.
const SAMPLE: &str = include_str!("../sample.jsonl");
/// How often the histories are looked at while they are waited for.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Runs the command, and says in one line why it could not.
pub async fn main(args: Args, program: PathBuf) -> ExitCode {
    let stopped = stop_signal();
    let outcome = tokio::select! {
        outcome = run(&args, program) => outcome,
        () = stopped => Ok(ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        say_error(&chain(&error));
        ExitCode::FAILURE
    })
}

async fn run(args: &Args, program: PathBuf) -> Result<ExitCode, RunError> {
    let path = args.template.clone().map_or_else(find_template, Ok)?;
    let template = Template::read(&path, &args.parameters).map_err(|error| RunError::Template(path, error))?;
    let feed = Feed::open(args.feed.as_deref())?;
    let stack = Stack::start(Options {
        template,
        dynamodb_port: args.dynamodb_port,
        lambda_port: args.lambda_port,
        data_dir: args.data_dir.clone(),
        failed: args.failed.clone(),
        program,
    })
    .await?;
    if !args.once {
        say(&endpoints(&stack));
    }
    send(&stack, feed).await?;
    let within = args.once.then(|| Duration::from_secs(args.timeout));
    let collections = wait(&stack, within).await?;
    say(show::collections(&collections).trim_end());
    if let Some(path) = &args.dump {
        dump::write(path, &collections).map_err(|error| RunError::Dump(path.clone(), error))?;
    }
    let complete = report(&stack, &collections);
    if args.once {
        return Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    say(&how_to_call(&stack));
    std::future::pending().await
}

/// The template of the current folder, or of the nearest one above it.
fn find_template() -> Result<PathBuf, RunError> {
    let here = std::env::current_dir().map_err(|_| RunError::NoTemplate)?;
    let candidates = here.ancestors().map(|folder| folder.join("template.yaml"));
    candidates
        .into_iter()
        .find(|path| path.is_file())
        .ok_or(RunError::NoTemplate)
}

/// Where updates come from.
enum Feed {
    /// None were named.
    Sample,
    /// A file, read whole, so that a bad line is found before anything is started.
    File(Vec<Line>),
    /// Read as it comes.
    StandardInput,
}

impl Feed {
    fn open(path: Option<&Path>) -> Result<Self, RunError> {
        match path {
            None => Ok(Self::Sample),
            Some(path) if path == Path::new("-") => Ok(Self::StandardInput),
            Some(path) => {
                let file = File::open(path).map_err(|error| RunError::Feed(path.to_owned(), error))?;
                Ok(Self::File(feed::read(BufReader::new(file)).collect::<Result<_, _>>()?))
            }
        }
    }
}

/// Sends the feed, or the sample where there is none and the table is empty.
async fn send(stack: &Stack, feed: Feed) -> Result<(), RunError> {
    let lines = match feed {
        Feed::StandardInput => None,
        Feed::File(lines) => Some(lines),
        Feed::Sample if !stack.store.scan_items().await?.is_empty() => return Ok(()),
        Feed::Sample => Some(feed::read(SAMPLE.as_bytes()).collect::<Result<_, _>>()?),
    };
    let bar = progress_bar(lines.as_ref().map_or(0, Vec::len) as u64, "updates sent to writer-fn");
    let lines: Pin<Box<dyn Stream<Item = _>>> = if let Some(lines) = lines {
        Box::pin(stream::iter(lines.into_iter().map(Ok)))
    } else {
        let mut lines = feed::standard_input();
        Box::pin(stream::poll_fn(move |context| lines.poll_recv(context)))
    };
    let summary = feed::send(&stack.lambda, lines, || bar.inc(1)).await;
    bar.finish_and_clear();
    let summary = summary?;
    let outcomes: Vec<_> = summary
        .outcomes
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if !outcomes.is_empty() {
        say_status(&format!("fed: {}", outcomes.join(", ")));
    }
    for (number, message) in &summary.conflicts {
        say_status(&format!("line {number} was refused: {message}"));
    }
    Ok(())
}

/// Waits until every history is complete, or the time is up. Without a bound, a history that can no longer become
/// complete ends the wait as well: its record is in a failure document.
async fn wait(stack: &Stack, within: Option<Duration>) -> Result<Collections, RunError> {
    let began = Instant::now();
    let bar = progress_bar(0, "versions written down by stream-fn");
    loop {
        let collections = history::collect(stack.store.scan_items().await?, stack.digits);
        let missing = history::missing(&collections, stack.digits);
        let lacking: usize = missing.values().map(Vec::len).sum();
        let items: usize = collections.values().map(|collection| collection.items().len()).sum();
        bar.set_length((items + lacking) as u64);
        bar.set_position(items as u64);
        let gave_up = stack
            .mapping
            .counters
            .documents
            .load(std::sync::atomic::Ordering::Relaxed)
            > 0;
        let out_of_time = match within {
            Some(within) => began.elapsed() >= within,
            None => gave_up,
        };
        if missing.is_empty() || out_of_time {
            bar.finish_and_clear();
            return Ok(collections);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Says what is missing, and whether nothing is.
fn report(stack: &Stack, collections: &Collections) -> bool {
    let missing = history::missing(collections, stack.digits);
    for (pk, missing) in &missing {
        say_error(&format!("the history of {pk} is not complete: {}", shortened(missing)));
    }
    let documents = stack
        .mapping
        .counters
        .documents
        .load(std::sync::atomic::Ordering::Relaxed);
    if documents > 0 {
        say_error(&format!(
            "{documents} failure document(s) in {}",
            stack.failed.display()
        ));
    }
    missing.is_empty()
}

fn shortened(missing: &[String]) -> String {
    const MOST: usize = 20;
    match missing.len().checked_sub(MOST) {
        Some(more @ 1..) => format!("{} and {more} more", missing[..MOST].join(", ")),
        _ => missing.join(", "),
    }
}

fn endpoints(stack: &Stack) -> String {
    format!(
        "DynamoDB  {}  (table {})\nLambda    {}  (writer-fn, stream-fn)\nfailures  {}\nlogs      {}",
        stack.dynamodb_endpoint(),
        stack.table,
        stack.lambda.endpoint(),
        stack.failed.display(),
        stack.logs.display(),
    )
}

fn how_to_call(stack: &Stack) -> String {
    format!(
        "Serving until Ctrl-C. Try, in another terminal:

  curl {lambda}/2015-03-31/functions/writer-fn/invocations -d '{{\"ID\": \"Equipment#1\", \"State\": \"OK\"}}'

or, with any credentials and Region:

  aws lambda invoke --endpoint-url {lambda} --function-name writer-fn \\
    --payload fileb://events/writer-direct.json /dev/stdout
  aws dynamodb scan --endpoint-url {dynamodb} --table-name {table}",
        lambda = stack.lambda.endpoint(),
        dynamodb = stack.dynamodb_endpoint(),
        table = stack.table,
    )
}

fn progress_bar(length: u64, what: &'static str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {pos}/{len} {msg} {wide_bar} {elapsed}");
    let bar = ProgressBar::new(length).with_message(what);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Ctrl-C, or the signal that asks a process to end.
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

/// Says what was asked for. Who no longer listens need not be told.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

fn say_status(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn say_error(text: &str) {
    let _ = writeln!(io::stderr(), "error: {text}");
}

/// Why the command ends early.
#[derive(Debug, Error)]
pub enum RunError {
    /// Neither here nor above.
    #[error("there is no template.yaml in this folder or one above it: name it with --template")]
    NoTemplate,
    /// The template.
    #[error("{0} is not a template that can be run")]
    Template(PathBuf, #[source] TemplateError),
    /// The file of the feed.
    #[error("{0} cannot be read")]
    Feed(PathBuf, #[source] io::Error),
    /// A line of the feed.
    #[error(transparent)]
    Line(#[from] FeedError),
    /// The stack.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The table.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The file of the dump.
    #[error("{0} cannot be written")]
    Dump(PathBuf, #[source] io::Error),
}

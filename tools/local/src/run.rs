//! What the command does: start, feed, wait, show, dump, serve.

use std::{
    fs::File,
    io::{self, BufReader, Write as _},
    path::{Path, PathBuf},
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
use shared::{dynamodb::read::scan_items::ScanError, logging::chain};
use thiserror::Error;
use tokio::time::Instant;

use crate::{
    args::Args,
    feed::{self, FeedError, Line},
    report::{
        dump,
        history::{self, Collections},
        screen::{Look, Screen},
        show,
        view::Sight,
    },
    stack::{self, Options, Stack, StackError},
    template::{Template, TemplateError},
};

/// The updates that are fed where no others are given.
const SAMPLE: &str = include_str!("../sample.jsonl");
/// The port of the history browser, where it is free.
const CONSOLE_PORT: u16 = 8100;
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
        let _ = writeln!(io::stderr(), "error: {}", chain(&error));
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
        sqs_endpoint: args.sqs_endpoint.clone(),
        s3_endpoint: args.s3_endpoint.clone(),
        program,
        bootstraps: args.bootstraps.iter().cloned().collect(),
    })
    .await?;
    let fed = Arc::new(Fed::default());
    let screen = Screen::start(look(&stack, fed.clone()));
    let console = (!args.once).then(|| console(args, &stack)).transpose()?;
    if let Some(console) = &console {
        screen.say(&endpoints(&stack, console));
    }
    send(&stack, feed, &fed, &screen).await?;
    let within = args.once.then(|| Duration::from_secs(args.timeout));
    let collections = wait(&stack, within).await?;
    screen.say(show::collections(&collections).trim_end());
    if let Some(path) = &args.dump {
        dump::write(path, &collections).map_err(|error| RunError::Dump(path.clone(), error))?;
    }
    let complete = report(&stack, &collections, &screen);
    if args.once {
        screen.sum_up();
        return Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    screen.say(&how_to_call(&stack));
    std::future::pending().await
}

/// The history browser of this table.
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
            failures: &failures,
            s3_endpoint_url: args.s3_endpoint.as_deref(),
        },
    );
    console.map_err(RunError::Console)
}

/// How far the feed is.
#[derive(Debug, Default)]
struct Fed {
    sent: AtomicU64,
    /// 0 where that is not known.
    of: AtomicU64,
    /// Whether there is more to come.
    feeding: AtomicBool,
}

/// All that there is to be seen of a stack.
fn look(stack: &Stack, fed: Arc<Fed>) -> Look {
    let (activity, mapping) = (stack.activity.clone(), stack.mapping.clone());
    Arc::new(move || {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let feeding = fed.feeding.load(Ordering::Relaxed);
        Sight {
            figures: activity.figures(),
            fed: feeding.then(|| (count(&fed.sent), Some(count(&fed.of)).filter(|of| *of > 0))),
            batches: count(&mapping.counters.invocations),
            retries: count(&mapping.counters.retries),
            bisections: count(&mapping.counters.bisections),
            documents: count(&mapping.counters.documents),
        }
    })
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
async fn send(stack: &Stack, feed: Feed, fed: &Fed, screen: &Screen) -> Result<(), RunError> {
    let lines = match feed {
        Feed::StandardInput => None,
        Feed::File(lines) => Some(lines),
        Feed::Sample if !stack.store.scan_items().await?.is_empty() => return Ok(()),
        Feed::Sample => Some(feed::read(SAMPLE.as_bytes()).collect::<Result<_, _>>()?),
    };
    fed.of
        .store(lines.as_ref().map_or(0, Vec::len) as u64, Ordering::Relaxed);
    fed.feeding.store(true, Ordering::Relaxed);
    let lines: Pin<Box<dyn Stream<Item = _>>> = if let Some(lines) = lines {
        Box::pin(stream::iter(lines.into_iter().map(Ok)))
    } else {
        let mut lines = feed::standard_input();
        Box::pin(stream::poll_fn(move |context| lines.poll_recv(context)))
    };
    let sent = || {
        fed.sent.fetch_add(1, Ordering::Relaxed);
    };
    let summary = feed::send(&stack.lambda, lines, sent).await?;
    fed.feeding.store(false, Ordering::Relaxed);
    let outcomes: Vec<_> = summary
        .outcomes
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if !outcomes.is_empty() {
        screen.status(&format!("fed: {}", outcomes.join(", ")));
    }
    for (number, message) in &summary.conflicts {
        screen.status(&format!("line {number} was refused: {message}"));
    }
    Ok(())
}

/// Waits until every history is complete, or the time is up. Without a bound, a history that can no longer become
/// complete ends the wait as well: its record is in a failure document.
async fn wait(stack: &Stack, within: Option<Duration>) -> Result<Collections, RunError> {
    let began = Instant::now();
    loop {
        let collections = history::collect(stack.store.scan_items().await?, stack.digits);
        let missing = history::missing(&collections, stack.digits);
        let gave_up = stack.mapping.counters.documents.load(Ordering::Relaxed) > 0;
        let out_of_time = match within {
            Some(within) => began.elapsed() >= within,
            None => gave_up,
        };
        // A version may be there before the answer that says so.
        let settled = missing.is_empty() && stack.activity.figures().waiting == 0;
        if settled || out_of_time {
            return Ok(collections);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Says what is missing, and whether nothing is.
fn report(stack: &Stack, collections: &Collections, screen: &Screen) -> bool {
    let missing = history::missing(collections, stack.digits);
    for (pk, missing) in &missing {
        screen.error(&format!("the history of {pk} is not complete: {}", shortened(missing)));
    }
    let documents = stack.mapping.counters.documents.load(Ordering::Relaxed);
    if documents > 0 {
        screen.error(&format!("{documents} failure document(s) in {}", stack.failures()));
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

fn endpoints(stack: &Stack, console: &Console) -> String {
    let mut lines = format!(
        "DynamoDB  {}  (table {})\nLambda    {}  (writer-fn, stream-fn)\nfailures  {}\nlogs      {}\nconsole   {}",
        stack.dynamodb_endpoint(),
        stack.table,
        stack.lambda.endpoint(),
        stack.failures(),
        stack.logs.display(),
        console.url(),
    );
    for (name, queue) in &stack.queues {
        lines.extend(["\nqueue     ", &queue.url, "  (", name, ")"]);
    }
    lines
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
    /// The history browser.
    #[error("the history browser could not be started")]
    Console(#[source] io::Error),
    /// The file of the dump.
    #[error("{0} cannot be written")]
    Dump(PathBuf, #[source] io::Error),
}

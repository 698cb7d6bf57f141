//! The command: starts the stack, feeds it, waits for the histories, lists the entities, dumps the items, and serves.

use std::{
    fs::File,
    io::{self, BufReader},
    net::{IpAddr, TcpListener},
    path::PathBuf,
    pin::Pin,
    process::ExitCode,
    time::Duration,
};

use futures::{Stream, stream};
use history_console::{Console, hosts::Hosts};
use operations::{connection::Connection, read::items::scan_items};
use shared::{
    domain::{Item, entity::is_reserved, keys::partition_key_of},
    logging::chain,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use crate::{
    args::Args,
    attach::Attachment,
    error::{LocalError, failed},
    feed::{self, Line},
    report::{
        commands, dump,
        history::{self, Collections},
        items, progress,
    },
    seal,
    stack::{self, Options, Stack},
    template::Template,
};

/// Updates to feed without --feed.
const SAMPLE: &str = include_str!("../sample.jsonl");
/// Template outside the repository.
const TEMPLATE: &str = include_str!("../../../template.yaml");
/// Default port of the history browser.
const CONSOLE_PORT: u16 = 8100;
/// Parameter of the template that sealing needs.
const TIME_INDEX: &str = "TimeIndex";
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
    outcome.unwrap_or_else(|failure| {
        error(&chain(&failure));
        ExitCode::FAILURE
    })
}

async fn run(args: &Args, program: PathBuf) -> Result<ExitCode, LocalError> {
    let path = args.template.clone().or_else(find_template);
    let mut parameters = args.parameters.clone();
    if args.seal.is_some() && !parameters.iter().any(|(name, _)| name == TIME_INDEX) {
        parameters.push((TIME_INDEX.to_owned(), true.to_string()));
    }
    let (template, name) = match &path {
        Some(path) => (Template::read(path, &parameters), path.display().to_string()),
        None => (Template::parse(TEMPLATE, &parameters), "of this program".to_owned()),
    };
    let mut template = template.map_err(failed(format!("cannot run the template {name}")))?;
    template.mapping.startup = Duration::from_secs(args.mapping_startup.into());
    if let Some(path) = &args.attach {
        Attachment::read(path)?.attach(&mut template)?;
    }
    let feed = open(args)?;
    let stack = Stack::start(Options {
        template,
        dynamodb: None,
        bind: args.bind,
        dynamodb_port: args.dynamodb_port,
        lambda_port: args.lambda_port,
        data_dir: args.data_dir.clone(),
        program,
        seal: args.seal.clone(),
        bootstraps: args.bootstraps.iter().cloned().collect(),
    })
    .await?;
    let console = (!args.once).then(|| {
        let listener = match args.console_port {
            Some(port) => stack::listen(args.bind, port)?,
            None => stack::listen(args.bind, CONSOLE_PORT).or_else(|_| stack::listen(args.bind, 0))?,
        };
        console(&stack, listener, args.bind)
    });
    let console = console.transpose()?;
    let url = console.as_ref().map(Console::url);
    if let Some(url) = url {
        print(&commands::endpoints(&stack, url, args.seal.as_deref()));
    }
    let complete = tokio::select! {
        // First, so that no line is lost at the end.
        biased;
        never = progress::print(&stack) => match never {},
        complete = serve(args, &stack, url, feed) => complete?,
    };
    progress::print_summary(&stack);
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Feeds the stack and lists the entities. With `--once`, returns `true` if they are complete, otherwise serves.
async fn serve(args: &Args, stack: &Stack, console: Option<&str>, feed: Option<Feed>) -> Result<bool, LocalError> {
    send(args, stack, feed).await?;
    let within = args.once.then(|| Duration::from_secs(args.timeout));
    let collections = wait(stack, within).await?;
    print(items::list(&collections, stack.store.digits()).trim_end());
    if let Some(path) = &args.dump {
        dump::write(path, &collections).map_err(failed(format!("{} cannot be written", path.display())))?;
    }
    let mut complete = report(stack, &collections);
    let Some(console) = console else {
        if args.seal.is_some()
            && let Err(reason) = seal::run(&stack.lambda).await
        {
            error(&format!("not all versions are sealed: {reason}"));
            complete = false;
        }
        return Ok(complete);
    };
    print(&match stack.store.attached_table() {
        Some(table) => commands::to_try_attached(table, stack.dynamodb_endpoint(), console),
        None => commands::to_try(stack, console),
    });
    std::future::pending().await
}

/// Serves the history browser of the stack on this listener, to the hosts of this address.
pub fn console(stack: &Stack, listener: TcpListener, bind: IpAddr) -> Result<Console, LocalError> {
    let (client, url) = (aws_sdk_dynamodb::Client::new(&stack.config), stack.dynamodb_endpoint());
    let mut connection = Connection::new(&client, stack.config.clone(), url, &stack.table, stack.store.digits())
        .with_history(stack.store.own_history().map(str::to_owned));
    if let Some(table) = stack.store.attached_table() {
        connection = connection.attached(table.clone());
    }
    let options = history_console::Options {
        hosts: Hosts::at(bind),
        ..Default::default()
    };
    let console = Console::serve(listener, connection, options);
    console.map_err(failed("cannot start the history browser"))
}

/// Prints to standard output. Write errors are ignored.
fn print(text: &str) {
    let _ = terminal::write_lines(&mut io::stdout(), text);
}

/// Prints a line to standard error.
fn note(text: &str) {
    let _ = terminal::write_line(&mut io::stderr(), text);
}

fn error(text: &str) {
    note(&format!("error: {text}"));
}

/// Finds the template in the current folder or the nearest parent.
fn find_template() -> Option<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut candidates = here.ancestors().map(|folder| folder.join("template.yaml"));
    candidates.find(|path| path.is_file())
}

/// The updates to feed.
type Feed = Pin<Box<dyn Stream<Item = Result<Line, LocalError>>>>;

/// Opens the feed. `None` is the sample, which is sent only if the table is empty.
fn open(args: &Args) -> Result<Option<Feed>, LocalError> {
    let lines = match &args.feed {
        // Parsed as it arrives.
        Some(path) if path.as_os_str() == "-" => {
            let mut lines = feed::standard_input();
            return Ok(Some(Box::pin(stream::poll_fn(move |context| lines.poll_recv(context)))));
        }
        // Parsed completely before the stack starts.
        Some(path) => {
            let file = File::open(path).map_err(failed(format!("{} cannot be read", path.display())))?;
            feed::read(BufReader::new(file)).collect::<Result<Vec<_>, _>>()?
        }
        None if args.attach.is_none() => return Ok(None),
        // Other programs write the items of an attached table.
        None => Vec::new(),
    };
    Ok(Some(Box::pin(stream::iter(lines.into_iter().map(Ok)))))
}

/// Sends the feed.
async fn send(args: &Args, stack: &Stack, feed: Option<Feed>) -> Result<(), LocalError> {
    // The library's own items, such as the width of version keys, are no content.
    let is_content = |item: &Item| !partition_key_of(item).is_some_and(is_reserved);
    let feed = match feed {
        Some(feed) => feed,
        None if scan(stack).await?.iter().any(is_content) => return Ok(()),
        None => Box::pin(stream::iter(feed::read(SAMPLE.as_bytes()))),
    };
    let summary = match feed::send(&stack.lambda, feed).await {
        // The stack is usable without the rest of the feed.
        Err(failed) if !args.once => {
            error(&format!("{}; the rest of the feed is not sent", chain(&failed)));
            return Ok(());
        }
        sent => sent?,
    };
    let outcomes = summary.outcomes.iter().map(|(name, count)| format!("{count} {name}"));
    let outcomes: Vec<_> = outcomes.collect();
    if !outcomes.is_empty() {
        note(&format!("fed: {}", outcomes.join(", ")));
    }
    for (number, message) in &summary.conflicts {
        note(&format!("line {number} was rejected: {message}"));
    }
    Ok(())
}

async fn scan(stack: &Stack) -> Result<Vec<Item>, LocalError> {
    scan_items(&stack.store).await.map_err(failed("cannot read the table"))
}

/// Waits until every history is complete or the timeout has passed. Without a timeout, records that failed also end the wait,
/// and records in quarantine do not prolong it: they do not complete a history.
async fn wait(stack: &Stack, timeout: Option<Duration>) -> Result<Collections, LocalError> {
    let started = Instant::now();
    loop {
        let read = Instant::now();
        let collections = history::collect(scan(stack).await?, stack.store.digits());
        let missing = history::missing(&collections, stack.store.digits());
        // A version may be stored before its invocation has ended.
        let counts = stack.mapping.counters.get();
        let is_idle = counts.waiting() == 0;
        let is_quarantined = |pk: &String| collections.get(pk).is_some_and(|items| history::quarantined(items) > 0);
        let timed_out = match timeout {
            Some(timeout) => started.elapsed() >= timeout,
            None => counts.documents + counts.dropped > 0 || (is_idle && missing.keys().all(is_quarantined)),
        };
        if (missing.is_empty() && is_idle) || timed_out {
            return Ok(collections);
        }
        // A check reads the whole table, and delays the versions for which it waits.
        tokio::time::sleep(CHECK_INTERVAL.max(read.elapsed() * CHECK_PAUSE)).await;
    }
}

/// Prints the missing versions and the failed records. Returns `true` if no version is missing and no record was dropped.
fn report(stack: &Stack, collections: &Collections) -> bool {
    let missing = history::missing(collections, stack.store.digits());
    for (pk, missing) in &missing {
        error(&format!("the history of {pk} is not complete: {}", missing.join(", ")));
    }
    let quarantined = collections.values().map(|items| history::quarantined(items)).sum();
    let counts = stack.mapping.counters.get();
    let (endpoint, folder) = (stack.dynamodb_endpoint(), stack.failed.display());
    for (count, text) in [
        (
            quarantined,
            format!("record(s) in quarantine: vzero --endpoint-url {endpoint} admin quarantine shows them"),
        ),
        (counts.documents, format!("failure document(s) in {folder}")),
        (
            counts.dropped,
            "record(s) were dropped, and are in no failure document".to_owned(),
        ),
    ] {
        if count > 0 {
            error(&format!("{count} {text}"));
        }
    }
    missing.is_empty() && counts.dropped == 0
}

/// Waits for Ctrl-C or SIGTERM.
async fn stop_signal() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
}

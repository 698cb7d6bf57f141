//! What to serve, and to whom.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, TcpListener},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use serde_json::json;

use super::{App, Console as Server, Hosts, Secrets};
use crate::{
    args::Args,
    connection::Connection,
    error::CliError,
    failures::source::Source,
    output::{self, Output},
    redrive::Services,
    writes,
};

/// A token of fewer characters could be guessed.
const MIN_TOKEN: usize = 16;

/// What to serve, and to whom.
#[derive(Debug, clap::Args)]
pub(crate) struct Console {
    /// The port, 0 for a free one
    #[arg(long, value_name = "PORT", default_value_t = 8100)]
    port: u16,
    /// Open no browser
    #[arg(long)]
    no_open: bool,
    /// Show these failure documents: a file, a folder, <s3://bucket/prefix>, or the URL of the dead-letter queue
    #[arg(long, value_name = "SOURCE")]
    from: Vec<Source>,
    /// Offer what changes the table: restore, undelete, redrive, repair
    #[arg(long)]
    allow_write: bool,
    /// Listen at this address, for others than this machine
    #[arg(long, value_name = "ADDRESS", requires = "token")]
    bind: Option<IpAddr>,
    /// The token that lets in [default: a fresh one]
    #[arg(long, value_name = "TOKEN", env = "VZERO_CONSOLE_TOKEN", hide_env_values = true, value_parser = token)]
    token: Option<String>,
    /// Answer to this name as well
    #[arg(long, value_name = "NAME", requires = "bind")]
    host: Vec<String>,
    /// How many seconds a missing version may be on its way: so long is waited before it counts as a gap
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lag: u64,
    /// The most read units a second of an audit
    #[arg(long, value_name = "UNITS")]
    max_read_units: Option<NonZeroU32>,
    #[command(flatten)]
    services: Services,
}

/// Serves until it is ended.
pub(crate) async fn run(
    connection: Connection,
    args: &Args,
    console: &Console,
    output: &Output,
) -> Result<(), CliError> {
    let listener = listen(console)?;
    let secrets = match &console.token {
        Some(token) => Secrets::with_token(token.clone()),
        None => Secrets::fresh(),
    };
    let app = App {
        secrets: Arc::new(secrets),
        writes: console.allow_write.then(|| writes::options(args)).transpose()?,
        services: console.services.clone(),
        lag: Duration::from_secs(console.lag),
        max_read_units: console.max_read_units,
        ordering: args.ordering,
        ..App::new(connection, console.from.clone())
    };
    let hosts = Hosts {
        bind: console.bind,
        names: console.host.clone(),
    };
    let mut server = Server::serve(listener, app, hosts)?;
    // The one place where the token is said.
    let url = server.url().to_owned();
    output.sentence(
        &json!({"URL": url, "AllowWrite": console.allow_write}),
        &format!("{url}\nServing until Ctrl-C."),
    )?;
    if !console.no_open && open::that_detached(&url).is_err() {
        output::say_note("no browser could be opened");
    }
    tokio::select! {
        () = server.ended() => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

fn listen(console: &Console) -> Result<TcpListener, CliError> {
    let address = console.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    TcpListener::bind((address, console.port)).map_err(|error| {
        CliError::Usage(match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("port {} is in use: --port 0 takes a free one", console.port)
            }
            _ => format!("{address} port {} cannot be listened at: {error}", console.port),
        })
    })
}

/// A token can stand in an address as it is, and is hard to guess.
fn token(text: &str) -> Result<String, String> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    match is_plain && text.len() >= MIN_TOKEN {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "it has at least {MIN_TOKEN} characters: letters, digits, - and _"
        )),
    }
}

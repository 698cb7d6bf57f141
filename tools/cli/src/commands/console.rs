//! `vzero console`.

use std::{
    ffi::OsStr,
    io,
    net::{IpAddr, Ipv4Addr, TcpListener},
    time::Duration,
};

use clap::{Arg, Command, builder::TypedValueParser, error::ErrorKind};
use history_console::{Options, hosts::Hosts};
use operations::connection::Connection;
use serde_json::json;

use super::segments::ReadRate;
use crate::{
    error::CliError,
    output::{self, Output},
    plan::cost_of_units,
    write_options::Writing,
};

/// Minimum length of a token, so that it cannot be guessed.
const MIN_TOKEN: usize = 16;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Console {
    /// Port, 0 for a free one
    #[arg(long, value_name = "PORT", default_value_t = 8100)]
    port: u16,
    /// Do not open the web browser
    #[arg(long)]
    no_open: bool,
    /// Allow actions that change the table: restore, undelete, undo
    #[arg(long, alias = "allow-write")]
    write: bool,
    /// Listen on this address, for access from other machines
    #[arg(long, value_name = "ADDRESS", requires = "token")]
    bind: Option<IpAddr>,
    /// Access token [default: a random one]. Other users of this machine can read this option in the process list: set
    /// `VZERO_CONSOLE_TOKEN` instead
    #[arg(long, value_name = "TOKEN", env = "VZERO_CONSOLE_TOKEN", hide_env_values = true, value_parser = TokenParser)]
    token: Option<String>,
    /// Accept requests for this host name as well
    #[arg(long, value_name = "NAME", requires = "bind")]
    host: Vec<String>,
    /// Seconds to wait for a missing version before it counts as a gap
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lag: u64,
    #[command(flatten)]
    audit_rate: ReadRate,
    #[command(flatten)]
    writing: Writing,
}

const EXAMPLES: &str = "\
Examples:
  vzero console --endpoint-url http://127.0.0.1:8000
  vzero console --write --no-open

The console starts on --table, and its menu has the other tables with a history. It is read-only without --write. Other machines have access only with --bind and a token.";

impl Console {
    /// Serves until Ctrl-C.
    pub(crate) async fn run(&self, connection: Connection, output: &Output) -> Result<(), CliError> {
        let options = Options {
            token: self.token.clone(),
            writes: self.write.then(|| self.writing.options()),
            ordering: self.writing.ordering,
            lag: Duration::from_secs(self.lag),
            max_read_units: self.audit_rate.max_read_units,
            cost: Some(cost_of_units),
            hosts: Hosts {
                bind: self.bind,
                names: self.host.clone(),
            },
        };
        let mut console = history_console::Console::serve(self.listen()?, connection, options)?;
        // The only output of the access token. The browser gets another one, because other users can read the arguments of the
        // command that opens it.
        let url = console.url().to_owned();
        output.sentence(
            &json!({"URL": url, "AllowWrite": self.write}),
            &format!("{url}\nServing until Ctrl-C."),
        )?;
        if !self.no_open && open::that_detached(console.single_use_url()).is_err() {
            output::note("cannot open a web browser");
        }
        tokio::select! {
            () = console.ended() => Ok(()),
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    }

    fn listen(&self) -> Result<TcpListener, CliError> {
        let address = self.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        TcpListener::bind((address, self.port)).map_err(|error| {
            CliError::Usage(match error.kind() {
                io::ErrorKind::AddrInUse => format!("port {} is in use: --port 0 selects a free one", self.port),
                _ => format!("cannot listen on {address} port {}: {error}", self.port),
            })
        })
    }
}

/// Parses a token: it is long enough, and needs no escapes in a URL. The error does not contain the value, which can be a secret.
#[derive(Clone)]
struct TokenParser;

impl TypedValueParser for TokenParser {
    type Value = String;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let token = value
            .to_str()
            .filter(|text| text.len() >= MIN_TOKEN && text.bytes().all(is_plain));
        token.map(str::to_owned).ok_or_else(|| {
            let why = format!(
                "the value of --token or VZERO_CONSOLE_TOKEN is not a token: at least {MIN_TOKEN} characters, letters, digits, - and _"
            );
            clap::Error::raw(ErrorKind::ValueValidation, why).with_cmd(command)
        })
    }
}

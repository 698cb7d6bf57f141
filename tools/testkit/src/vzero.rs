//! The command `vzero` on a table of a test, and the stream of this table.

use std::{
    ffi::OsString,
    io::Write as _,
    process::{Child, Command, Stdio},
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use local::{
    dynamodb::stream::TableStream,
    mapping::{
        Identity,
        failure::{Document, Failure, LastTry, Reason},
        position::Position,
        record::Record,
        source::Source as _,
    },
};
use serde_json::Value;

use crate::{
    command::{Arguments, Run},
    endpoint::Endpoint,
};

pub struct Vzero {
    pub endpoint: Endpoint,
    pub client: Client,
    pub stream_arn: String,
    /// Runtime for requests of the test itself.
    pub runtime: tokio::runtime::Runtime,
    stream: TableStream,
    program: &'static str,
    /// Variables and first arguments of each command.
    environment: Vec<(String, String)>,
    options: Vec<OsString>,
}

impl Vzero {
    /// Creates a command. `program` is its path, `env!("CARGO_BIN_EXE_vzero")`, and `create` creates the tables and returns the ARN of
    /// the stream.
    pub(crate) fn new<E: std::fmt::Debug>(
        program: &'static str,
        create: impl AsyncFnOnce(&Client, &Endpoint) -> Result<String, E>,
    ) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let endpoint = runtime.block_on(Endpoint::open());
        let client = Client::new(&endpoint.config);
        let stream_arn = runtime.block_on(create(&client, &endpoint)).unwrap();
        let streams = aws_sdk_dynamodbstreams::Client::new(&endpoint.config);
        let (mut environment, options) = runtime.block_on(endpoint.command_options());
        // In most tests, nothing reads the stream.
        environment.push(("VZERO_NO_WAIT".to_owned(), "1".to_owned()));
        Self {
            stream: TableStream::new(streams, stream_arn.clone(), None),
            environment,
            options: options.into_iter().map(OsString::from).collect(),
            endpoint,
            client,
            stream_arn,
            runtime,
            program,
        }
    }

    pub(crate) fn with_environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn with_options(mut self, options: impl IntoIterator<Item = OsString>) -> Self {
        self.options.extend(options);
        self
    }

    /// Returns the command with these arguments, without standard input and with piped output.
    pub fn command(&self, arguments: &(impl Arguments + ?Sized)) -> Command {
        let mut command = Command::new(self.program);
        command.env_clear().envs(self.environment.clone());
        command.args(&self.options).args(arguments.words());
        piped(command)
    }

    pub fn start(&self, arguments: &(impl Arguments + ?Sized)) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Starts the command with more environment variables.
    pub fn start_with(&self, environment: &[(&str, &str)], arguments: &(impl Arguments + ?Sized)) -> Child {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied()).spawn().unwrap()
    }

    pub fn run(&self, arguments: &(impl Arguments + ?Sized)) -> Run {
        Run::wait(self.start(arguments))
    }

    /// Runs the command with more environment variables, with which the text begins: `NAME=value`. If it `is_alone`, it has no others, and
    /// not the options of the table.
    pub(crate) fn run_in(&self, text: &str, is_alone: bool) -> Run {
        let words = text.words();
        let pairs = words.iter().map_while(|word| word.split_once('='));
        let environment: Vec<_> = pairs.collect();
        let arguments = &words[environment.len()..];
        match is_alone {
            true => Run::alone(self.program, &environment, arguments),
            false => Run::wait(self.start_with(&environment, arguments)),
        }
    }

    /// Runs the command with at most this much memory, in kilobytes of address space.
    pub fn run_limited(&self, kilobytes: u32, arguments: &(impl Arguments + ?Sized)) -> Run {
        let command = self.command(arguments);
        let mut limited = Command::new("sh");
        limited
            .args(["-c", &format!("ulimit -v {kilobytes}; exec \"$0\" \"$@\"")])
            .arg(command.get_program())
            .args(command.get_args())
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Run::wait(piped(limited).spawn().unwrap())
    }

    pub fn run_with_input(&self, arguments: &(impl Arguments + ?Sized), input: &str) -> Run {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Run::wait(child)
    }

    /// Runs the command, expects this exit code, and returns the lines.
    pub fn lines(&self, arguments: &(impl Arguments + ?Sized), code: i32) -> Vec<Value> {
        let arguments = arguments.words();
        let run = self.run(&arguments);
        assert_eq!(run.code, code, "{arguments:?}: {} {}", run.stdout, run.stderr);
        assert_eq!(run.lines.len(), run.stdout.lines().count(), "{}", run.stdout);
        run.lines
    }

    /// Runs the command, expects this exit code, and returns the only line.
    pub fn json(&self, arguments: &(impl Arguments + ?Sized), code: i32) -> Value {
        let arguments = arguments.words();
        let mut lines = self.lines(&arguments, code);
        assert_eq!(lines.len(), 1, "{arguments:?}: {lines:?}");
        lines.remove(0)
    }

    /// Runs requests of the test itself.
    pub fn block_on<T>(&self, requests: impl Future<Output = T>) -> T {
        self.runtime.block_on(requests)
    }

    /// Returns the stream records that the mapping selects, oldest first.
    pub(crate) fn selected(&self, is_selected: impl Fn(&Value) -> bool) -> Vec<Record> {
        let mut records = Vec::new();
        self.block_on(async {
            for shard in self.stream.shards().await.unwrap() {
                let iterator = self.stream.iterator(&shard.id, &Position::TrimHorizon).await;
                let mut next = Some(iterator.unwrap());
                while let Some(iterator) = next {
                    let page = self.stream.read(&iterator).await.unwrap();
                    next = page.next.filter(|_| !page.records.is_empty());
                    records.extend(page.records);
                }
            }
        });
        records.retain(|record| is_selected(record.json()));
        records
    }

    /// Returns the failure document that the mapping writes for these records, with a unique key.
    pub fn document(&self, records: &[Record]) -> Document {
        let identity = Identity {
            uuid: "00000000-0000-0000-0000-000000000000".to_owned(),
            function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
            stream_arn: self.stream_arn.clone(),
        };
        let failure = Failure {
            records: records.to_vec(),
            request_id: "r".to_owned(),
            invoke_count: 11,
            reason: Reason::RetryAttemptsExhausted(LastTry::Response),
        };
        let shard = &self.runtime.block_on(self.stream.shards()).unwrap()[0].id;
        // The key depends on the time.
        let now = Duration::new(1_700_000_000, uuid::Uuid::new_v4().as_fields().0 % 1_000_000);
        failure.document(&identity, shard, now)
    }
}

fn piped(mut command: Command) -> Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

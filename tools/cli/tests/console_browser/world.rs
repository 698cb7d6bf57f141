//! The local stack, consoles of its table, and where the browser is to be had.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use local::{
    function,
    report::history,
    stack::{Options, Stack},
    template::Template,
};
use serde_json::Value;
use shared::domain::Item;
use tempfile::TempDir;

use crate::data;

/// How long anything is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The token of every console here.
pub(crate) const TOKEN: &str = "the-token-of-the-tests_0123456789";

pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) client: aws_sdk_dynamodb::Client,
    /// A console that only reads.
    pub(crate) reading: Console,
    /// A console that writes as well.
    pub(crate) writing: Console,
    /// Where failure documents go.
    pub(crate) failed: PathBuf,
    _folder: TempDir,
}

impl World {
    /// Starts the stack, feeds it, and starts the consoles.
    pub(crate) async fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let failed = folder.path().join("failed");
        let mut template = Template::read(&root().join("template.yaml"), &[]).unwrap();
        // What cannot be written down becomes a document at once.
        template.mapping.maximum_retry_attempts = Some(1);
        let options = Options {
            template,
            dynamodb_port: 0,
            lambda_port: 0,
            data_dir: None,
            failed: Some(failed.clone()),
            sqs_endpoint: None,
            s3_endpoint: None,
            program: function::this_program(),
            bootstraps: BTreeMap::new(),
        };
        let stack = Stack::start(options).await.unwrap();
        let config = local::dynamodb::sdk_config(stack.dynamodb_endpoint()).await;
        let reading = Console::start(&stack, &failed, &[]);
        let writing = Console::start(&stack, &failed, &["--allow-write"]);
        let world = Self {
            client: aws_sdk_dynamodb::Client::new(&config),
            stack,
            reading,
            writing,
            failed,
            _folder: folder,
        };
        data::feed(&world).await;
        world
    }

    /// Sends an update to writer-fn.
    pub(crate) async fn write(&self, update: Value) {
        let invoked = self
            .stack
            .lambda
            .invoke("writer-fn", update.to_string().into_bytes())
            .await;
        let answer: Value = serde_json::from_slice(&invoked.unwrap().payload).unwrap();
        assert_eq!(answer["Outcome"], "Written", "{answer}");
    }

    /// Stores an item past the writer.
    pub(crate) async fn put(&self, item: Value) {
        let item: Item = serde_json::from_value(item).unwrap();
        let request = self.client.put_item().table_name(&self.stack.table);
        request.set_item(Some(item.into())).send().await.unwrap();
    }

    /// Deletes an item past everybody.
    pub(crate) async fn delete(&self, pk: &str, sk: &str) {
        let key = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
        let request = self.client.delete_item().table_name(&self.stack.table);
        request.key("PK", key(pk)).key("SK", key(sk)).send().await.unwrap();
    }

    /// The items of an entity, as DynamoDB JSON by their sort keys.
    pub(crate) async fn items(&self, pk: &str) -> BTreeMap<String, Value> {
        let collections = history::collect(self.stack.store.scan_items().await.unwrap(), self.stack.digits);
        let Some(collection) = collections.get(pk) else {
            return BTreeMap::new();
        };
        let items = collection.items().iter();
        items
            .map(|(key, item)| (key.clone(), serde_json::to_value(item).unwrap()))
            .collect()
    }

    /// Waits until an entity has these versions.
    pub(crate) async fn has_versions(&self, pk: &str, keys: &[&str]) {
        eventually(&format!("the versions of {pk}"), async || {
            let items = self.items(pk).await;
            keys.iter().all(|key| items.contains_key(*key)).then_some(())
        })
        .await;
    }

    /// Waits until there are as many failure documents.
    pub(crate) async fn has_documents(&self, count: usize) {
        eventually("failure documents", async || {
            (files(&self.failed) == count).then_some(())
        })
        .await;
    }
}

fn files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                usize::from(!is_hidden(&path))
            }
        })
        .sum()
}

/// Whether a file is on its way.
fn is_hidden(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with('.')
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let asked = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    answer.unwrap_or_else(|_| panic!("no {what} within {PATIENCE:?}"))
}

/// The program as its user starts it, until it is dropped.
pub(crate) struct Console {
    child: Child,
    /// `http://127.0.0.1:12345`.
    pub(crate) url: String,
}

impl Console {
    fn start(stack: &Stack, failed: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vzero"));
        command
            .args(["--endpoint-url", stack.dynamodb_endpoint(), "--table", &stack.table])
            .args([
                "console",
                "--port",
                "0",
                "--no-open",
                "--token",
                TOKEN,
                "--lag",
                "1",
                "--from",
            ])
            .arg(failed)
            .args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = said["URL"]
            .as_str()
            .and_then(|url| url.strip_suffix(&format!("/?token={TOKEN}")));
        let url = url
            .unwrap_or_else(|| panic!("the console does not start: {line}"))
            .to_owned();
        Self { child, url }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    tools.into_iter().nth(2).unwrap().to_owned()
}

/// What tools/cli/tests/with-browser tells.
#[allow(clippy::disallowed_methods, reason = "the browser is what the environment hands in")]
pub(crate) fn told(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What tools/cli/tests/with-browser tells, which the tests cannot do without.
pub(crate) fn needed(name: &str) -> String {
    told(name).unwrap_or_else(|| panic!("{name} is not set: tools/cli/tests/with-browser sets it"))
}

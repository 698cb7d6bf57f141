//! The stack: creates the resources of the template and connects them.

use std::{
    collections::BTreeMap,
    fs::{File, TryLockError},
    io,
    net::{IpAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
};

use shared::{
    clock,
    domain::{
        keys::VersionDigits,
        time_index::{ALWAYS, INDEX_NAME},
    },
    dynamodb::Store,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::{
    dynamodb::{
        Embedded,
        endpoint::{Dynamodb, Endpoint},
        stream::TableStream,
        table,
    },
    error::{LocalError, failed},
    files, function,
    lambda::{self, FunctionInvoker, Host, Lambda},
    mapping::{Counters, Environment, Identity, Mapping, position::InFile},
    report::{activity::Activity, documents::Documents},
    seal,
    template::{
        Template,
        resolve::{ACCOUNT, REGION},
    },
};

const KINESIS_STREAM: &str = "Changes";
const CONCURRENCY: usize = 4;

const DATABASE: &str = "dynamodb.sqlite";
const FAILED: &str = "failed";
const LOCK: &str = "lock";
const LOGS: &str = "logs";
const SIGNING_KEY: &str = "signing-key";
const POSITIONS: &str = "mapping.json";

#[derive(Debug)]
pub struct Options {
    pub template: Template,
    /// DynamoDB to use. `None` is an embedded one.
    pub dynamodb: Option<Dynamodb>,
    /// Address of both ports.
    pub bind: IpAddr,
    /// Port of the embedded DynamoDB, 0 for a free one.
    pub dynamodb_port: u16,
    /// Port of Lambda, 0 for a free one.
    pub lambda_port: u16,
    /// Folder of the database, the mapping's position, logs and failure documents. `None` is a temporary folder.
    pub data_dir: Option<PathBuf>,
    /// Program that runs a function after [`function::ARGUMENT`].
    pub program: PathBuf,
    /// Folder of the log in which versions are sealed.
    pub seal: Option<PathBuf>,
    /// Programs of functions that replace `program`, by binary.
    pub bootstraps: BTreeMap<String, PathBuf>,
}

/// A stack that runs until it is dropped.
pub struct Stack {
    pub store: Store,
    pub table: String,
    pub lambda: Lambda,
    pub mapping: Arc<Mapping<Local>>,
    pub activity: Arc<Activity>,
    /// Folder for failure documents.
    pub failed: PathBuf,
    pub logs: PathBuf,
    pub config: aws_config::SdkConfig,
    endpoint: String,
    _embedded: Option<Embedded>,
    mapping_task: tokio::task::JoinHandle<()>,
    /// Runs seal-fn again and again.
    seal_task: Option<tokio::task::JoinHandle<()>>,
    _home: DataFolder,
}

/// The environment of the stack's mapping.
pub struct Local;

impl Environment for Local {
    type Source = TableStream;
    type Invoker = FunctionInvoker;
    type Destination = Documents;
    type Positions = InFile;
    type Clock = fn() -> std::time::Duration;
}

impl Stack {
    pub async fn start(options: Options) -> Result<Self, LocalError> {
        let Options {
            mut template, dynamodb, ..
        } = options;
        check(&options.bootstraps, &template, options.seal.is_some())?;
        if let Some(folder) = &options.seal {
            seal::check(folder, options.data_dir.is_none())?;
        }
        // Ports first: if one is in use, nothing is created.
        let dynamodb_listener = dynamodb
            .is_none()
            .then(|| listen(options.bind, options.dynamodb_port))
            .transpose()?;
        let lambda_listener = listen(options.bind, options.lambda_port)?;
        let home = DataFolder::open(options.data_dir)?;
        let (failures, logs) = (home.path.join(FAILED), home.path.join(LOGS));

        let embedded = dynamodb_listener
            .map(|listener| Embedded::serve(listener, home.database().as_deref()))
            .transpose()?;
        let direct = embedded.as_ref().map(Embedded::direct_endpoint).unwrap_or_default();
        let dynamodb = dynamodb.unwrap_or_else(|| Dynamodb::At(direct.to_owned()));
        let endpoint = Box::pin(Endpoint::of(dynamodb)).await?;
        let client = aws_sdk_dynamodb::Client::new(&endpoint.config);
        let (store, stream_arn) = Box::pin(tables(client, &template)).await?;
        if let Some(folder) = &options.seal {
            let function = seal::function(store.client(), &store, folder, home.path.join(SIGNING_KEY)).await?;
            template.functions.push(function);
        }

        let host = Host {
            program: options.program,
            arguments: vec![function::ARGUMENT.to_owned()],
            bootstraps: options.bootstraps,
            environment: endpoint.environment,
            concurrency: CONCURRENCY,
            logs: logs.clone(),
        };
        let lambda = Lambda::serve(lambda_listener, &template.functions, &host);
        let lambda = lambda.map_err(failed("cannot serve the functions"))?;
        let sealed = lambda.clone();
        let activity = Arc::new(Activity::default());
        let observer = activity.clone();
        lambda.observe(move |binary, event, output| observer.invoked(binary, event, output));
        let positions = InFile::open(home.path.join(POSITIONS), &stream_arn, Uuid::new_v4().to_string());
        let positions = positions.map_err(failed(format!("{POSITIONS} cannot be used")))?;
        if let Some(embedded) = &embedded {
            embedded.trim_processed(template.table.name.clone(), positions.clone());
        }
        let kinesis = kinesis(&template, &stream_arn);
        let streams = aws_sdk_dynamodbstreams::Client::new(&endpoint.mapping_config);
        let mapping = Arc::new(Mapping {
            identity: Identity {
                uuid: positions.uuid(),
                function_arn: lambda::arn(&template.stream_function),
                stream_arn: kinesis.clone().unwrap_or_else(|| stream_arn.clone()),
            },
            source: TableStream::new(streams, stream_arn, kinesis),
            invoker: FunctionInvoker {
                lambda: lambda.clone(),
                binary: template.stream_function,
            },
            destination: Documents(failures.clone()),
            positions,
            clock: clock::since_epoch as fn() -> _,
            settings: template.mapping,
            counters: Counters::default(),
        });
        Ok(Self {
            store,
            table: template.table.name,
            lambda,
            mapping: mapping.clone(),
            activity,
            failed: failures,
            logs,
            config: endpoint.config,
            endpoint: embedded
                .as_ref()
                .map_or(endpoint.url, |embedded| embedded.endpoint().to_owned()),
            _embedded: embedded,
            mapping_task: tokio::spawn(async move { mapping.run().await }),
            seal_task: options.seal.map(|_| tokio::spawn(seal::schedule(sealed))),
            _home: home,
        })
    }

    /// Returns the URL of DynamoDB, such as `http://127.0.0.1:8000`.
    pub fn dynamodb_endpoint(&self) -> &str {
        &self.endpoint
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.mapping_task.abort();
        self.seal_task.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Creates the tables of the template if they do not exist, and returns them with the ARN of the stream.
async fn tables(client: aws_sdk_dynamodb::Client, template: &Template) -> Result<(Store, String), LocalError> {
    let digits = digits(template)?;
    let mut is_new = false;
    if let Some(history) = &template.history {
        is_new = table::ensure(&client, history).await?;
    }
    if let Some(attachment) = &template.attached {
        let stream_arn = attachment.ensure(&client).await?;
        let store = Store::attached(client, attachment.table.clone());
        // As stream-fn does at its start, which is the first change.
        let stored = store.put_definition().await;
        stored.map_err(failed(format!("cannot use the table {}", store.history_table())))?;
        return Ok((with_time_index(store, template, is_new).await?, stream_arn));
    }
    let is_new_table = table::ensure(&client, &template.table).await?;
    let stream_arn = table::stream_of(&client, &template.table.name).await?;
    let history = template.history.as_ref().map(|table| table.name.clone());
    let store = Store::new(client, &template.table.name, digits).with_history(history);
    // writer-fn does the same at its start; here, the error is reported in one line.
    let claimed = store.claim_layout().await;
    claimed.map_err(failed(format!("cannot use the table {}", template.table.name)))?;
    let is_new = if store.has_own_history() { is_new } else { is_new_table };
    Ok((with_time_index(store, template, is_new).await?, stream_arn))
}

/// Returns the store of a table that has the index of versions by time if the functions expect it. In a new table, it is complete.
async fn with_time_index(store: Store, template: &Template, is_new: bool) -> Result<Store, LocalError> {
    let table = store.history_table().to_owned();
    let store = store.with_time_index(None);
    let expected = template.has_time_index();
    let has_index = store.has_time_index().await;
    let has_index = has_index.map_err(failed(format!("cannot describe the table {table}")))?;
    if expected && !has_index {
        let what = format!(
            "the table {table} was created without the index {INDEX_NAME}: use another --data-dir, or add the index"
        );
        return Err(LocalError::new(what));
    }
    if expected && is_new {
        let stored = store.store_time_index_since(Some(ALWAYS)).await;
        stored.map_err(failed(format!("cannot use the table {table}")))?;
    }
    Ok(store)
}

/// Checks that each bootstrap exists and belongs to a function of the template, or to seal-fn if it runs.
fn check(bootstraps: &BTreeMap<String, PathBuf>, template: &Template, seals: bool) -> Result<(), LocalError> {
    for (name, path) in bootstraps {
        let is_known =
            template.functions.iter().any(|function| function.binary == *name) || seals && name == seal::BINARY;
        if !is_known {
            return Err(LocalError::new(format!("the template has no function {name}")));
        }
        if !path.is_file() {
            let path = path.display();
            return Err(LocalError::new(format!(
                "there is no bootstrap {path}: build it with sam build or cargo lambda build"
            )));
        }
    }
    Ok(())
}

/// Returns the ARN of the simulated Kinesis stream, if the template uses one. It has the Region and account of the table's stream.
fn kinesis(template: &Template, stream_arn: &str) -> Option<String> {
    let mut parts = stream_arn.split(':').skip(3);
    let (region, account) = parts.next().zip(parts.next()).unwrap_or((REGION, ACCOUNT));
    let arn = format!("arn:aws:kinesis:{region}:{account}:stream/{KINESIS_STREAM}");
    template.is_kinesis.then_some(arn)
}

/// Returns the width of version keys in the environment of the functions.
fn digits(template: &Template) -> Result<VersionDigits, LocalError> {
    let mut functions = template.functions.iter();
    let digits = functions.find_map(|function| function.environment.get("VERSION_DIGITS"));
    let digits = digits.map_or_else(|| Ok(VersionDigits::default()), |digits| digits.parse());
    digits.map_err(failed("the template's VERSION_DIGITS is invalid"))
}

/// Binds a port of this machine, 0 for a free one.
pub fn listen(bind: IpAddr, port: u16) -> Result<TcpListener, LocalError> {
    TcpListener::bind((bind, port)).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => LocalError::new(format!("port {port} is in use")),
        _ => failed(format!("port {port} cannot be used"))(error),
    })
}

#[derive(Debug)]
struct DataFolder {
    path: PathBuf,
    /// The folder without `--data-dir`, which is deleted with the stack.
    temporary: Option<TempDir>,
    /// Excludes a second stack.
    _lock: File,
}

impl DataFolder {
    fn open(data_dir: Option<PathBuf>) -> Result<Self, LocalError> {
        let temporary = data_dir.is_none().then(files::temporary_folder).transpose();
        let temporary = temporary.map_err(failed("cannot create a temporary folder"))?;
        let path = temporary.as_ref().map(|folder| folder.path().to_owned());
        let path = path.or(data_dir).unwrap_or_default();
        let shown = path.display();
        let lock = Self::lock(&path).map_err(failed(format!("the data folder {shown} cannot be used")))?;
        let in_use = || LocalError::new(format!("the data folder {shown} is in use by another stack"));
        Ok(Self {
            _lock: lock.ok_or_else(in_use)?,
            path,
            temporary,
        })
    }

    /// Creates the folder. Returns `None` if another stack uses it.
    fn lock(path: &Path) -> io::Result<Option<File>> {
        files::create_folder(path)?;
        let lock = files::append(&path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns the database file. Without a data folder, the database is in memory.
    fn database(&self) -> Option<PathBuf> {
        self.temporary.is_none().then(|| self.path.join(DATABASE))
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        // Failure documents are never deleted.
        let has_documents = self.path.join(FAILED).exists();
        if let Some(folder) = &mut self.temporary {
            folder.disable_cleanup(has_documents);
        }
    }
}

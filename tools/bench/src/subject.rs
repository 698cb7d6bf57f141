//! The subjects: our functions, and those of the installed peers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use crate::{error::BenchError, progress::Progress};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Writer,
    Stream,
}

impl Role {
    pub(crate) const BOTH: [Self; 2] = [Self::Stream, Self::Writer];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Writer => "writer-fn",
            Self::Stream => "stream-fn",
        }
    }
}

/// Both functions in one implementation.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// `true` for our code: its records contain what our writer writes.
    pub(crate) is_ours: bool,
    /// `true` if it processes one record after the other. It is measured with fewer batches.
    pub(crate) is_sequential: bool,
    writer: Start,
    stream: Start,
    pub(crate) environment: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// The last argument.
    pub(crate) handler: String,
}

impl Subject {
    /// Returns the same subject with another program of a function.
    pub(crate) fn with_program(&self, role: Role, program: PathBuf) -> Self {
        let mut subject = self.clone();
        match role {
            Role::Writer => subject.writer.program = program,
            Role::Stream => subject.stream.program = program,
        }
        subject
    }

    pub(crate) fn start(&self, role: Role) -> &Start {
        match role {
            Role::Writer => &self.writer,
            Role::Stream => &self.stream,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Subjects {
    pub(crate) ours: Subject,
    pub(crate) python: Option<Subject>,
    pub(crate) node: Option<Subject>,
    /// The peers in other languages with concurrent requests, and several records in each request.
    pub(crate) python_tuned: Option<Subject>,
    pub(crate) node_tuned: Option<Subject>,
    /// Our functions with the SDK's default features, without warm-up requests.
    pub(crate) plain: Option<Subject>,
}

pub(crate) const PYTHON: &str = "Python";
pub(crate) const NODE: &str = "Node";
pub(crate) const PYTHON_TUNED: &str = "Python tuned";
pub(crate) const NODE_TUNED: &str = "Node tuned";
pub(crate) const PLAIN: &str = "default features";

impl Subjects {
    /// Builds our functions, unless `functions` contains them, and looks for the peers.
    pub(crate) async fn find(functions: Option<&Path>, progress: &Progress) -> Result<Self, BenchError> {
        let bootstrap = |folder: &Path, role: Role| folder.join(role.name()).join("bootstrap");
        let program: Box<dyn Fn(Role) -> PathBuf> = if let Some(folder) = functions {
            let missing = Role::BOTH.map(|role| bootstrap(folder, role));
            if let Some(missing) = missing.into_iter().find(|path| !path.is_file()) {
                return Err(BenchError::NoBootstrap(missing));
            }
            Box::new(|role| bootstrap(folder, role))
        } else {
            progress.show("building the functions");
            let built = build().await?;
            Box::new(move |role| built.join(role.name()))
        };
        let mut ours = pair("vzero", true, |role| Start {
            program: program(role),
            arguments: Vec::new(),
            handler: role.name().to_owned(),
        });
        // As in template.yaml.
        ours.environment = [
            ("MALLOC_MMAP_THRESHOLD_", "131072"),
            ("METRICS_NAMESPACE", "VersionControl"),
            ("SERVICE_NAME", "bench"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let plain = plain().map(|plain| Subject {
            environment: ours.environment.clone(),
            ..plain
        });
        let subjects = Self {
            ours,
            python: python(PYTHON, ""),
            node: node(NODE, ""),
            python_tuned: python(PYTHON_TUNED, "tuned_").map(concurrent),
            node_tuned: node(NODE_TUNED, "tuned-").map(concurrent),
            plain,
        };
        for (name, package, found) in [
            (PYTHON, "python", subjects.python.is_some()),
            (NODE, "node", subjects.node.is_some()),
            (PYTHON_TUNED, "python", subjects.python_tuned.is_some()),
            (NODE_TUNED, "node", subjects.node_tuned.is_some()),
            (PLAIN, "default-features", subjects.plain.is_some()),
        ] {
            if !found {
                progress.note(&format!(
                    "{name} is not installed, so its figures are missing: tools/bench/peers/install {package}"
                ));
            }
        }
        Ok(subjects)
    }

    /// Returns our functions, and the peers in other languages.
    pub(crate) fn languages(&self) -> impl Iterator<Item = &Subject> {
        [Some(&self.ours), self.python.as_ref(), self.node.as_ref()]
            .into_iter()
            .flatten()
    }

    /// Returns our functions, and all peers in other languages.
    pub(crate) fn with_tuned(&self) -> impl Iterator<Item = &Subject> {
        let tuned = [self.python_tuned.as_ref(), self.node_tuned.as_ref()];
        self.languages().chain(tuned.into_iter().flatten())
    }

    /// Returns our functions, the straightforward peers in other languages, and our functions with default features.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Subject> {
        self.languages().chain(self.plain.as_ref())
    }
}

fn pair(name: &'static str, is_ours: bool, start: impl Fn(Role) -> Start) -> Subject {
    Subject {
        name,
        is_ours,
        is_sequential: !is_ours,
        writer: start(Role::Writer),
        stream: start(Role::Stream),
        environment: BTreeMap::new(),
    }
}

fn concurrent(peer: Subject) -> Subject {
    Subject {
        is_sequential: false,
        ..peer
    }
}

/// Builds the functions as they are deployed, and returns their folder.
async fn build() -> Result<PathBuf, BenchError> {
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--release", "-p", "writer-fn", "-p", "stream-fn"])
        .current_dir(root())
        .output()
        .await?;
    if !built.status.success() {
        return Err(BenchError::Build {
            stderr: String::from_utf8_lossy(&built.stderr).into_owned(),
        });
    }
    // Beside this program, or, if this is a debug build, in the folder beside its own.
    let program = std::env::current_exe()?;
    let target = program.ancestors().find(|folder| folder.join("release").is_dir());
    Ok(target.map_or_else(|| root().join("target/release"), |target| target.join("release")))
}

pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub(crate) fn installed() -> PathBuf {
    root().join("target/bench/peers")
}

fn sources() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/peers"))
}

fn python(name: &'static str, prefix: &str) -> Option<Subject> {
    let program = installed().join("python/bin/python");
    let folder = sources().join("python").display().to_string();
    let mut subject = pair(name, false, |role| Start {
        program: program.clone(),
        arguments: vec!["-m".to_owned(), "awslambdaric".to_owned()],
        handler: format!("{prefix}{}.handler", module(role)),
    });
    subject.environment = BTreeMap::from([
        ("PYTHONPATH".to_owned(), folder.clone()),
        ("LAMBDA_TASK_ROOT".to_owned(), folder),
    ]);
    program.exists().then_some(subject)
}

fn node(name: &'static str, prefix: &str) -> Option<Subject> {
    let folder = installed().join("node");
    let program = on_path("node")?;
    let subject = pair(name, false, |role| Start {
        program: program.clone(),
        arguments: vec![folder.join("runtime.mjs").display().to_string()],
        handler: format!("{prefix}{}.handler", module(role)),
    });
    let is_installed =
        [format!("{prefix}stream.mjs"), "node_modules".to_owned()].map(|name| folder.join(name).exists());
    (is_installed == [true, true]).then_some(subject)
}

fn plain() -> Option<Subject> {
    let program = root().join("target/bench/default-features/release/default-features");
    let subject = pair(PLAIN, true, |role| Start {
        program: program.clone(),
        arguments: Vec::new(),
        handler: role.name().to_owned(),
    });
    program.exists().then_some(subject)
}

fn module(role: Role) -> &'static str {
    match role {
        Role::Writer => "writer",
        Role::Stream => "stream",
    }
}

#[allow(clippy::disallowed_methods, reason = "the search path of programs")]
fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

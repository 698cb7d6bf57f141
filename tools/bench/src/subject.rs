//! The subjects: our functions, and those of the installed peers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use crate::{error::BenchError, print_error};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Stream,
    Writer,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    /// Our functions with the SDK's default features, without warm-up requests.
    Plain,
    /// A straightforward peer in another language, which processes one record after the other. It is measured with fewer batches.
    Sequential,
    /// A peer in another language with concurrent requests, and several records in each request.
    Tuned,
}

/// Both functions in one implementation.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The program of each role.
    programs: [PathBuf; 2],
    pub(crate) arguments: Vec<String>,
    /// The last argument of each role.
    handlers: [String; 2],
    pub(crate) environment: BTreeMap<String, String>,
}

impl Subject {
    /// Returns our functions with the settings of template.yaml, in the order of [`Role::BOTH`].
    fn ours(name: &'static str, kind: Kind, programs: [PathBuf; 2]) -> Self {
        let settings = [
            ("MALLOC_MMAP_THRESHOLD_", "131072"),
            ("METRICS_NAMESPACE", "VersionControl"),
            ("SERVICE_NAME", "bench"),
        ];
        Self {
            name,
            kind,
            programs,
            arguments: Vec::new(),
            handlers: Role::BOTH.map(|role| role.name().to_owned()),
            environment: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }

    /// Returns a subject in another language. The handlers of tuned functions are in files with a prefix.
    fn in_language(name: &'static str, kind: Kind, program: PathBuf, arguments: &[&str], tuned: &str) -> Self {
        let prefix = if kind == Kind::Tuned { tuned } else { "" };
        Self {
            name,
            kind,
            programs: [program.clone(), program],
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            handlers: ["stream", "writer"].map(|module| format!("{prefix}{module}.handler")),
            environment: BTreeMap::new(),
        }
    }

    /// Returns `true` for our code: its records contain what our writer writes.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Ours | Kind::Plain)
    }

    pub(crate) fn program(&self, role: Role) -> &Path {
        &self.programs[role as usize]
    }

    pub(crate) fn handler(&self, role: Role) -> &str {
        &self.handlers[role as usize]
    }
}

#[derive(Debug)]
pub(crate) struct Subjects {
    pub(crate) ours: Subject,
    /// Those that are installed.
    peers: Vec<Subject>,
}

pub(crate) const PYTHON: &str = "Python";
pub(crate) const PYTHON_TUNED: &str = "Python tuned";
pub(crate) const PLAIN: &str = "default features";

impl Subjects {
    /// Builds our functions, unless `functions` contains them, and looks for the peers.
    pub(crate) async fn find(functions: Option<&Path>) -> Result<Self, BenchError> {
        let programs = if let Some(folder) = functions {
            Role::BOTH.map(|role| folder.join(role.name()).join("bootstrap"))
        } else {
            print_error("building the functions");
            let built = build().await?;
            Role::BOTH.map(|role| built.join(role.name()))
        };
        if let Some(missing) = programs.iter().find(|path| !path.is_file()) {
            let missing = missing.display();
            return Err(BenchError::Usage(format!(
                "there is no {missing}: build it with cargo lambda build --release"
            )));
        }
        let mut peers = Vec::new();
        for (name, package, peer) in [
            (PYTHON, "python", python(PYTHON, Kind::Sequential)),
            ("Node", "node", node("Node", Kind::Sequential)),
            (PYTHON_TUNED, "python", python(PYTHON_TUNED, Kind::Tuned)),
            ("Node tuned", "node", node("Node tuned", Kind::Tuned)),
            (PLAIN, "default-features", plain()),
        ] {
            match peer {
                Some(peer) => peers.push(peer),
                None => print_error(&format!(
                    "note: {name} is not installed, so its figures are missing: tools/bench/peers/install {package}"
                )),
            }
        }
        let ours = Subject::ours("vzero", Kind::Ours, programs);
        Ok(Self { ours, peers })
    }

    /// Returns our functions, and all peers in other languages.
    pub(crate) fn with_tuned(&self) -> impl Iterator<Item = &Subject> {
        self.without(Kind::Plain)
    }

    /// Returns our functions, the straightforward peers in other languages, and our functions with default features.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Subject> {
        self.without(Kind::Tuned)
    }

    fn without(&self, kind: Kind) -> impl Iterator<Item = &Subject> {
        std::iter::once(&self.ours).chain(self.peers.iter().filter(move |peer| peer.kind != kind))
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
        let stderr = String::from_utf8_lossy(&built.stderr);
        return Err(BenchError::Failed(format!("cannot build the functions: {stderr}")));
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

fn python(name: &'static str, kind: Kind) -> Option<Subject> {
    let program = installed().join("python/bin/python");
    let mut subject = Subject::in_language(name, kind, program.clone(), &["-m", "awslambdaric"], "tuned_");
    let folder = root().join("tools/bench/peers/python").display().to_string();
    subject.environment = ["PYTHONPATH", "LAMBDA_TASK_ROOT"]
        .map(|name| (name.to_owned(), folder.clone()))
        .into();
    program.exists().then_some(subject)
}

#[allow(clippy::disallowed_methods, reason = "the search path of programs")]
fn node(name: &'static str, kind: Kind) -> Option<Subject> {
    let folder = installed().join("node");
    let path = std::env::var_os("PATH")?;
    let program = std::env::split_paths(&path)
        .map(|folder| folder.join("node"))
        .find(|file| file.is_file())?;
    let runtime = folder.join("runtime.mjs").display().to_string();
    let subject = Subject::in_language(name, kind, program, &[&runtime], "tuned-");
    let handler = subject.handler(Role::Stream).replace(".handler", ".mjs");
    (folder.join(handler).exists() && folder.join("node_modules").exists()).then_some(subject)
}

fn plain() -> Option<Subject> {
    let program = root().join("target/bench/default-features/release/default-features");
    let exists = program.exists();
    exists.then(|| Subject::ours(PLAIN, Kind::Plain, [program.clone(), program]))
}

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
    fn ours(programs: [PathBuf; 2]) -> Self {
        let settings = [
            ("MALLOC_MMAP_THRESHOLD_", "131072"),
            ("METRICS_NAMESPACE", "VersionControl"),
            ("SERVICE_NAME", "bench"),
        ];
        Self {
            name: "vzero",
            kind: Kind::Ours,
            programs,
            arguments: Vec::new(),
            handlers: Role::BOTH.map(|role| role.name().to_owned()),
            environment: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }

    /// Returns a peer of a package, if it is installed. The handlers of tuned functions are in files with a prefix.
    #[allow(clippy::disallowed_methods, reason = "the search path of programs")]
    fn peer(name: &'static str, package: &str, kind: Kind) -> Option<Self> {
        let folder = installed().join(package);
        let (tuned, program, arguments, environment, needed) = if package == "python" {
            let modules = root().join("tools/bench/peers/python").display().to_string();
            let environment = ["PYTHONPATH", "LAMBDA_TASK_ROOT"].map(|name| (name.to_owned(), modules.clone()));
            let (program, arguments) = (folder.join("bin/python"), ["-m", "awslambdaric"].map(str::to_owned));
            (
                "tuned_",
                program.clone(),
                arguments.to_vec(),
                environment.into(),
                [program.clone(), program],
            )
        } else {
            let path = std::env::var_os("PATH")?;
            let programs = std::env::split_paths(&path).map(|folder| folder.join(package));
            let runtime = vec![folder.join("runtime.mjs").display().to_string()];
            let needed = ["tuned-stream.mjs", "node_modules"].map(|name| folder.join(name));
            let program = programs.into_iter().find(|file| file.is_file())?;
            ("tuned-", program, runtime, BTreeMap::new(), needed)
        };
        let prefix = if kind == Kind::Tuned { tuned } else { "" };
        needed.iter().all(|path| path.exists()).then(|| Self {
            name,
            kind,
            programs: [program.clone(), program],
            arguments,
            handlers: ["stream", "writer"].map(|module| format!("{prefix}{module}.handler")),
            environment,
        })
    }

    pub(crate) fn program(&self, role: Role) -> &Path {
        &self.programs[role as usize]
    }

    pub(crate) fn handler(&self, role: Role) -> &str {
        &self.handlers[role as usize]
    }
}

pub(crate) const PYTHON: &str = "Python";
pub(crate) const PYTHON_TUNED: &str = "Python tuned";

/// Returns our functions, built unless `functions` contains them, and the peers that are installed.
pub(crate) async fn find(functions: Option<&Path>) -> Result<Vec<Subject>, BenchError> {
    let programs = if let Some(folder) = functions {
        Role::BOTH.map(|role| folder.join(role.name()).join("bootstrap"))
    } else {
        print_error("building the functions");
        let built = build(&["writer-fn", "stream-fn"]).await?;
        Role::BOTH.map(|role| built.join(role.name()))
    };
    if let Some(missing) = programs.iter().find(|path| !path.is_file()) {
        let missing = missing.display();
        return Err(BenchError::Usage(format!(
            "there is no {missing}: build it with cargo lambda build --release"
        )));
    }
    let mut subjects = vec![Subject::ours(programs)];
    for (name, package, kind) in [
        (PYTHON, "python", Kind::Sequential),
        ("Node", "node", Kind::Sequential),
        (PYTHON_TUNED, "python", Kind::Tuned),
        ("Node tuned", "node", Kind::Tuned),
    ] {
        match Subject::peer(name, package, kind) {
            Some(peer) => subjects.push(peer),
            None => print_error(&format!(
                "note: {name} is not installed, so its figures are missing: tools/bench/peers/install {package}"
            )),
        }
    }
    Ok(subjects)
}

/// Builds programs in release mode, the functions as they are deployed, and returns their folder.
pub(crate) async fn build(packages: &[&str]) -> Result<PathBuf, BenchError> {
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--release"])
        .args(packages.iter().flat_map(|package| ["-p", package]))
        .current_dir(root())
        .output()
        .await?;
    if !built.status.success() {
        let stderr = String::from_utf8_lossy(&built.stderr);
        return Err(BenchError::Failed(format!(
            "cannot build {}: {stderr}",
            packages.join(", ")
        )));
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

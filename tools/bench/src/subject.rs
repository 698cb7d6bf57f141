//! The subjects: our functions, and those of the installed peers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use crate::{args::Args, error::BenchError, floor, print_error};

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
    /// Our functions with the history of an attached table.
    Attached,
    /// Our functions with updates in change sets.
    Sets,
    /// A straightforward peer in another language, which processes one record after the other. It is measured with fewer batches.
    Sequential,
    /// A peer in another language with concurrent requests, and several records in each request.
    Tuned,
    /// A program that only sends the requests that are required ([`crate::floor`]), over HTTP.
    Floor,
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

    /// Returns the floor of both functions: this program.
    fn floor() -> Self {
        Self {
            name: FLOOR,
            kind: Kind::Floor,
            programs: [local::function::this_program(), local::function::this_program()],
            arguments: vec![floor::ARGUMENT.to_owned()],
            handlers: Role::BOTH.map(|role| role.name().to_owned()),
            environment: BTreeMap::new(),
        }
    }

    /// Returns a peer of a package, if it is installed. The handlers of tuned functions are in files with a prefix.
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
            let runtime = vec![folder.join("runtime.mjs").display().to_string()];
            let needed = ["tuned-stream.mjs", "node_modules"].map(|name| folder.join(name));
            let program = find_program(package)?;
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

    /// Returns the functions as another kind, with more settings.
    pub(crate) fn variant(&self, name: &'static str, kind: Kind, settings: &[(&str, &str)]) -> Self {
        let mut subject = Self {
            name,
            kind,
            ..self.clone()
        };
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        subject.environment.extend(settings);
        subject
    }

    /// Returns the functions in another program, with these arguments.
    pub(crate) fn with_program(self, program: PathBuf, arguments: Vec<String>) -> Self {
        let programs = [program.clone(), program];
        Self {
            programs,
            arguments,
            ..self
        }
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
pub(crate) const NODE: &str = "Node";
pub(crate) const NODE_TUNED: &str = "Node tuned";
pub(crate) const FLOOR: &str = "floor";
/// CPU for which cargo-lambda builds.
const CPU: &str = if cfg!(target_arch = "x86_64") {
    "haswell"
} else {
    "neoverse-n1"
};

/// Returns our functions, built unless `functions` contains them, and the peers that are installed.
pub(crate) async fn find(functions: Option<&Path>) -> Result<Vec<Subject>, BenchError> {
    let programs = if let Some(folder) = functions {
        Role::BOTH.map(|role| folder.join(role.name()).join("bootstrap"))
    } else {
        print_error("building the functions");
        let built = build_functions().await?;
        Role::BOTH.map(|role| built.join(role.name()))
    };
    for program in &programs {
        check(program, "cargo lambda build --release")?;
    }
    let mut subjects = vec![Subject::ours(programs)];
    for (name, package, kind) in [
        (PYTHON, "python", Kind::Sequential),
        (NODE, "node", Kind::Sequential),
        (PYTHON_TUNED, "python", Kind::Tuned),
        (NODE_TUNED, "node", Kind::Tuned),
    ] {
        match Subject::peer(name, package, kind) {
            Some(peer) => subjects.push(peer),
            None => print_error(&format!(
                "note: {name} is not installed, so its figures are missing: tools/bench/peers/install {package}"
            )),
        }
    }
    subjects.push(Subject::floor());
    Ok(subjects)
}

/// Installs the peers, and builds all programs that are not given.
///
/// # Errors
///
/// [`BenchError::Failed`] if a peer cannot be installed, or a program cannot be built.
pub(crate) async fn setup(args: &Args) -> Result<(), BenchError> {
    let install = root().join("tools/bench/peers/install");
    // Without Valgrind, one comparison is skipped.
    let _ = Command::new(&install).arg("valgrind").status().await?;
    if !Command::new(&install)
        .args(["python", "node"])
        .status()
        .await?
        .success()
    {
        return Err(BenchError::Failed(
            "cannot install the peers: see the errors above".to_owned(),
        ));
    }
    if args.functions.is_none() {
        print_error("building the functions");
        build_functions().await?;
    }
    if args.vzero.is_none() {
        print_error("building vzero");
        build_vzero().await?;
    }
    Ok(())
}

/// Checks that a program exists, and was built as it is released.
///
/// # Errors
///
/// [`BenchError::Usage`] with the command that builds it.
pub(crate) fn check(program: &Path, command: &str) -> Result<(), BenchError> {
    /// A debug build, or a build with symbols, is larger.
    const MAX_BYTES: usize = 30_000_000;

    let problem = match std::fs::read(program) {
        Err(_) => "there is no program",
        Ok(bytes) if bytes.len() > MAX_BYTES => "this is no release build:",
        Ok(bytes) if bytes.starts_with(b"\x7fELF") || bytes.starts_with(b"#!") => return Ok(()),
        Ok(_) => "this is no program of this system:",
    };
    let program = program.display();
    Err(BenchError::Usage(format!(
        "{problem} {program}: build it with {command}"
    )))
}

/// Builds the functions as cargo-lambda does, and returns their folder. They are built alone: with `vzero`, they would get its features of the
/// libraries.
async fn build_functions() -> Result<PathBuf, BenchError> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let arguments = ["-p", "writer-fn", "-p", "stream-fn", "--target", &target];
    let built = build(&arguments, &format!("-Ctarget-cpu={CPU}")).await?;
    Ok(built.join(target).join("release"))
}

/// Builds `vzero`, and returns its path.
pub(crate) async fn build_vzero() -> Result<PathBuf, BenchError> {
    Ok(build(&["-p", "vzero"], "").await?.join("release/vzero"))
}

/// Builds programs in release mode, and returns the folder of all builds.
async fn build(arguments: &[&str], flags: &str) -> Result<PathBuf, BenchError> {
    let mut cargo = Command::new("cargo");
    // `cargo run` names this package in the environment, which build scripts read: with it, cargo would build their crates again each time.
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if ["CARGO_MANIFEST_", "CARGO_PKG_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            cargo.env_remove(name);
        }
    }
    if !flags.is_empty() {
        cargo.env("RUSTFLAGS", flags);
    }
    let built = cargo
        .args(["build", "--quiet", "--release"])
        .args(arguments)
        .current_dir(root())
        .output()
        .await?;
    if !built.status.success() {
        let stderr = String::from_utf8_lossy(&built.stderr);
        return Err(BenchError::Failed(format!("cannot build {}: {stderr}", arguments[1])));
    }
    // The parent of this program's folder.
    let program = std::env::current_exe()?;
    let target = program.ancestors().find(|folder| folder.join("release").is_dir());
    Ok(target.map_or_else(|| root().join("target"), Path::to_owned))
}

/// Finds an installed program.
#[allow(clippy::disallowed_methods, reason = "the search path of programs")]
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub(crate) fn installed() -> PathBuf {
    root().join("target/bench/peers")
}

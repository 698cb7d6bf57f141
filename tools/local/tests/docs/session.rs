//! The local stack, folder and shell of one page.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Once,
};

use tempfile::TempDir;
use testkit::serving::Serving;

use crate::root;

const LOCAL: &str = env!("CARGO_BIN_EXE_local");
/// Maximum time of a page in seconds.
const PAGE_TIMEOUT: &str = "300";

pub(crate) struct Session {
    stack: Serving,
    home: TempDir,
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Session {
    /// Starts a stack with its own table, or with the table `Orders` of other programs.
    pub(crate) fn start(is_attached: bool) -> Self {
        let home = tempfile::tempdir().unwrap();
        let here = home.path().join("repository");
        fs::create_dir(&here).unwrap();
        for entry in fs::read_dir(root()).unwrap().map(Result::unwrap) {
            let name = entry.file_name();
            if name != "target" && name != ".git" {
                symlink(entry.path(), here.join(name)).unwrap();
            }
        }
        let mut local = Command::new(LOCAL);
        if is_attached {
            local.args(["--attach", "docs/examples/orders.json"]);
        }
        let stack = Serving::start(local.current_dir(&here).stdin(Stdio::null()));
        stack.until(|line| line.starts_with("Serving until"));
        let session = Self { stack, home };
        session.shims(if is_attached { "Orders" } else { "VersionControl" });
        session
    }

    /// Returns the addresses of the stack in pages, with the actual ones.
    fn addresses(&self) -> [(&'static str, &str); 2] {
        [
            ("127.0.0.1:8000", &self.stack.dynamodb),
            ("127.0.0.1:9001", &self.stack.lambda),
        ]
    }

    pub(crate) fn to_actual(&self, text: &str) -> String {
        let addresses = self.addresses().into_iter();
        addresses.fold(text.to_owned(), |text, (documented, actual)| {
            text.replace(documented, actual)
        })
    }

    pub(crate) fn to_documented(&self, text: &str) -> String {
        let addresses = self.addresses().into_iter();
        addresses.fold(text.to_owned(), |text, (documented, actual)| {
            text.replace(actual, documented)
        })
    }

    /// Writes substitutes for programs: for cargo, which would build for minutes, and, for blocks that require an account,
    /// for every program that a page calls. The latter only parse their arguments.
    fn shims(&self, table: &str) {
        let bin = Path::new(LOCAL).parent().unwrap();
        build_missing_programs(bin);
        let fill = |shim: &str| {
            shim.replace("LOCAL", LOCAL)
                .replace("BIN", &bin.to_string_lossy())
                .replace("TABLE", table)
                .replace("DYNAMODB", &format!("http://{}", self.stack.dynamodb))
        };
        let write = |folder: &str, name: &str, shim: &str| {
            let folder = self.home.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            let path = folder.join(name);
            fs::write(&path, fill(shim)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("run", "cargo", CARGO);
        write("run", "vzero", VZERO);
        write("run", "settle", SETTLE);
        write(
            "parse",
            "vzero",
            "#!/bin/bash\nexec BIN/vzero \"$@\" --help >/dev/null\n",
        );
        write("parse", "aws", &parsing("aws-cli", "aws", CALL_CLOSED_PORT));
        write(
            "parse",
            "cargo",
            &parsing("cargo-lambda", "cargo", CALL_HELP).replace("#!/bin/bash\n", PARSE_RUN),
        );
        write("parse", "docker", DOCKER);
        // tools/check-modules runs cdk.
        for program in ["sam", "rustup", "cdk", "gh", "id", "sha256sum", "tar"] {
            write("parse", program, &parsing(program, program, CALL_HELP));
        }
    }

    /// Runs the parts of a script in order in one shell, and returns the output of each. The `PATH` of a part that is only
    /// parsed contains only the programs that parse.
    pub(crate) fn run(&self, parts: &[(String, bool)]) -> Vec<Result<Output, String>> {
        let outputs = tempfile::tempdir_in(self.home.path()).unwrap();
        let out = |index: usize, name: &str| outputs.path().join(format!("{name}.{index}"));
        let path = search_path();
        let (home, folder) = (self.home.path().display(), outputs.path().display());
        let mut script = vec!["set -euo pipefail\n".to_owned()];
        for (index, (part, is_parsed)) in parts.iter().enumerate() {
            // A part that is parsed runs in a subshell: the variables that it sets have placeholder values.
            let (path, [begin, end]) = match is_parsed {
                true => (format!("{home}/parse"), ["(", ")"]),
                false => (format!("{home}/run:{path}"), ["{", "}"]),
            };
            let outputs = format!(">{folder}/stdout.{index} 2>{folder}/stderr.{index}");
            if !is_parsed {
                script.push(format!("{home}/run/settle {outputs}\n"));
            }
            script.push(format!("{begin}\nPATH='{path}'\n{part}\n{end} {outputs}\n"));
        }
        script.push(format!("PATH='{path}'\ntouch {folder}/done\n"));
        let file = outputs.path().join("script");
        fs::write(&file, script.concat()).unwrap();
        // `timeout` kills a page that hangs.
        let mut shell = Command::new("timeout");
        shell
            .args([PAGE_TIMEOUT, "/bin/bash"])
            .arg(&file)
            .current_dir(self.home.path().join("repository"));
        shell
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local");
        shell.env("AWS_DEFAULT_REGION", "us-east-1").env("AWS_PAGER", "");
        shell.env_remove("AWS_PROFILE").env_remove("TABLE_NAME");
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.status().unwrap();
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let is_whole = outputs.path().join("done").exists();
        let output = |index: usize| {
            let (stdout, stderr) = (read(out(index, "stdout")), read(out(index, "stderr")));
            match out(index, "stdout").exists() {
                true if is_whole || out(index + 1, "stdout").exists() => Ok(Output { stdout, stderr }),
                true => Err(format!("failed: {stdout}{stderr}")),
                false => Err("not reached".to_owned()),
            }
        };
        (0..parts.len()).map(output).collect()
    }
}

#[allow(clippy::disallowed_methods, reason = "the test runs the installed programs")]
pub(crate) fn search_path() -> String {
    std::env::var("PATH").unwrap()
}

/// Returns `true` if `tools/check-docs` provides this tool.
#[allow(clippy::disallowed_methods, reason = "the script sets it")]
pub(crate) fn provided(tool: &str) -> bool {
    std::env::var("DOCS_TOOLS").is_ok_and(|tools| tools.split(' ').any(|provided| provided == tool))
}

/// Builds the programs that pages call, which are missing if only this package's tests are built.
fn build_missing_programs(bin: &Path) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (file, arguments) in [
            ("vzero", ["-p", "vzero", "--bins"]),
            ("examples/numbered_versions", ["-p", "patterns", "--examples"]),
        ] {
            let profile = bin.ends_with("release").then_some("--release");
            let mut cargo = Command::new(env!("CARGO"));
            cargo
                .current_dir(root())
                .args(["build", "--quiet"])
                .args(arguments)
                .args(profile);
            let is_built = bin.join(file).exists() || cargo.status().unwrap().success();
            assert!(is_built && bin.join(file).exists(), "{file} does not exist");
        }
    });
}

/// With `--help`, a program parses its arguments and does nothing.
const CALL_HELP: &str = "exec PROGRAM \"$@\" --help >/dev/null\n";

/// The AWS CLI checks all parameters before it sends a request, and no server listens at this endpoint.
const CALL_CLOSED_PORT: &str = r#"
export AWS_MAX_ATTEMPTS=1
output=$(PROGRAM "$@" --endpoint-url http://127.0.0.1:9 --no-sign-request 2>&1) && exit 1
# A value, for commands that use the output.
case "$output" in *"Could not connect to the endpoint URL"*) echo Name=value; exit 0 ;; esac
echo "$output" >&2
exit 1
"#;

/// Returns a script that calls the program so that it only parses, or does nothing if the tool is not provided.
fn parsing(tool: &str, program: &str, call: &str) -> String {
    if !provided(tool) {
        return "#!/bin/bash\n".to_owned();
    }
    let path = search_path();
    let mut programs = path.split(':').map(|folder| Path::new(folder).join(program));
    let program = programs
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{program} does not exist"));
    format!(
        "#!/bin/bash\nexport PATH='{path}'\n{}",
        call.replace("PROGRAM", &program.to_string_lossy())
    )
}

/// Parses the command in the container.
const DOCKER: &str = r#"#!/bin/bash
while [ $# -gt 0 ] && [[ $1 != ghcr.io/* && $1 != stack ]]; do
    [ "$1" != --name ] || shift
    shift
done
case ${2:-local} in
    local) exec LOCAL "${@:3}" --help >/dev/null ;;
    vzero) exec BIN/vzero "${@:3}" --help >/dev/null ;;
    *) exit 1 ;;
esac
"#;

const VZERO: &str = r#"#!/bin/bash
set -euo pipefail
more=()
case " $* " in *" --endpoint-url "*) ;; *) more+=(--endpoint-url DYNAMODB) ;; esac
case " $* " in *" --output "*) ;; *) more+=(--output table) ;; esac
exec BIN/vzero "${more[@]}" "$@"
"#;

/// Waits until history is complete, because commands of a page run faster than the stream.
const SETTLE: &str = r#"#!/bin/bash
for try in {1..100}; do
    BIN/vzero --endpoint-url DYNAMODB --table TABLE admin audit --all --lag 0 >/dev/null 2>&1 && exit 0
    sleep 0.1
done
echo "history is not complete" >&2
exit 1
"#;

/// `cargo run` calls the built program, in place of a build of minutes.
const PARSE_RUN: &str = r#"#!/bin/bash
run() { exec "${BASH_SOURCE%/*}/../run/cargo" "$@" --help >/dev/null; }
case " $* " in
    " run "*" -- "*) run "$@" ;;
    " run "*) run "$@" -- ;;
esac
"#;

/// Runs `cargo run [-q] -p PACKAGE [--example NAME] [--] ARGUMENTS` with the built programs.
const CARGO: &str = r#"#!/bin/bash
set -euo pipefail
refuse() { echo "not run in this test: cargo $arguments" >&2; exit 97; }
arguments="$*"
words=" $* "
words=${words/ -q / } words=${words/ --quiet / }
case "$words" in
    " run -p vzero "*) program=("${0%/*}/vzero") count=3 ;;
    " run -p patterns --example "*) read -r _ _ _ _ example _ <<<"$words"; program=("BIN/examples/$example") count=5 ;;
    " run -p local "*) program=(LOCAL --dynamodb-port 0 --lambda-port 0) count=3 ;;
    *) refuse ;;
esac
case " $* " in *" -q "* | *" --quiet "*) count=$((count + 1)) ;; esac
shift "$count"
[ "${1-}" = -- ] && shift
case "${program[0]} $* " in
    LOCAL*" --help "*) exec LOCAL "$@" ;;
    LOCAL*" --once "*) ;;
    LOCAL*)
        # Serves until it is stopped: stop it when it is ready.
        coproc "${program[@]}" "$@"
        pid=$COPROC_PID
        while read -r line <&"${COPROC[0]}"; do
            case "$line" in "Serving until"*) kill "$pid"; exit 0 ;; esac
        done
        echo "the stack did not start" >&2
        exit 1 ;;
esac
exec "${program[@]}" "$@"
"#;

//! The local stack, folder and shell of one page.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Once, mpsc},
    time::Duration,
};

use tempfile::TempDir;

use crate::root;

const LOCAL: &str = env!("CARGO_BIN_EXE_local");
const PAGE_TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) struct Session {
    stack: Child,
    /// Addresses in pages, with the actual addresses.
    addresses: [(&'static str, String); 2],
    home: TempDir,
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Session {
    pub(crate) fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let here = home.path().join("repository");
        fs::create_dir(&here).unwrap();
        for entry in fs::read_dir(root()).unwrap().map(Result::unwrap) {
            let name = entry.file_name();
            if name != "target" && name != ".git" {
                symlink(entry.path(), here.join(name)).unwrap();
            }
        }
        let errors = home.path().join("errors");
        let mut stack = Command::new(LOCAL)
            .current_dir(&here)
            .args(["--dynamodb-port", "0", "--lambda-port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(stack.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut address = |name: &str| {
            let line = lines.find(|line| line.starts_with(name));
            let line = line.unwrap_or_else(|| panic!("{}", fs::read_to_string(&errors).unwrap()));
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        let addresses = [
            ("http://127.0.0.1:8000", address("DynamoDB")),
            ("http://127.0.0.1:9001", address("Lambda")),
        ];
        lines.find(|line| line.starts_with("Serving until")).unwrap();
        // Reads the remaining output, so that the stack does not block.
        std::thread::spawn(move || lines.for_each(drop));
        let session = Self { stack, addresses, home };
        session.shims();
        session
    }

    /// Returns the text with the actual addresses in place of the documented ones.
    pub(crate) fn to_actual(&self, text: &str) -> String {
        self.addresses
            .iter()
            .fold(text.to_owned(), |text, (documented, actual)| {
                text.replace(documented, actual)
            })
    }

    /// Returns the text with the documented addresses in place of the actual ones.
    pub(crate) fn to_documented(&self, text: &str) -> String {
        self.addresses
            .iter()
            .fold(text.to_owned(), |text, (documented, actual)| {
                text.replace(actual, documented)
            })
    }

    pub(crate) fn lambda(&self) -> &str {
        &self.addresses[1].1
    }

    /// Writes substitutes for programs: for cargo, which would build for minutes, and, for blocks that require an account,
    /// for every program that a page calls. The latter only parse their arguments.
    fn shims(&self) {
        let bin = Path::new(LOCAL).parent().unwrap();
        build_missing_programs(bin);
        let fill = |shim: &str| {
            shim.replace("LOCAL", LOCAL)
                .replace("BIN", &bin.to_string_lossy())
                .replace("DYNAMODB", &self.addresses[0].1)
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
        if !on_the_path("curl") {
            write("run", "curl", CURL);
        }
        write(
            "parse",
            "vzero",
            "#!/bin/bash\nexec BIN/vzero \"$@\" --help >/dev/null\n",
        );
        write("run", "settle", SETTLE);
        write("parse", "aws", &parsing("aws-cli", "aws", CALL_CLOSED_PORT));
        write("parse", "sam", &parsing("sam", "sam", CALL_HELP));
        let cargo_lambda = parsing("cargo-lambda", "cargo", CALL_HELP);
        write("parse", "cargo", &cargo_lambda.replace("#!/bin/bash\n", PARSE_RUN));
        write("parse", "rustup", &parsing("rustup", "rustup", CALL_HELP));
        // tools/check-modules runs it.
        write("parse", "cdk", &parsing("cdk", "cdk", CALL_HELP));
    }

    /// Runs the parts of a script in order in one shell, and returns the output of each. The `PATH` of a part that is only
    /// parsed contains only the programs that parse.
    pub(crate) fn run(&self, parts: &[(String, bool)]) -> Vec<Result<Output, String>> {
        let folder = |name: &str| self.home.path().join(name);
        let out = |index: usize, name: &str| folder(&format!("{name}.{index}"));
        let path = search_path();
        let mut script = vec!["set -euo pipefail\n".to_owned()];
        for (index, (part, parsed)) in parts.iter().enumerate() {
            let path = match parsed {
                true => folder("parse").display().to_string(),
                false => format!("{}:{path}", folder("run").display()),
            };
            let (stdout, stderr) = (out(index, "stdout"), out(index, "stderr"));
            let settle = folder("run/settle");
            let (stdout, stderr, settle) = (stdout.display(), stderr.display(), settle.display());
            script.push(format!("{settle} 2>{stderr}\n"));
            script.push(match parsed {
                // In a subshell: the variables that it sets have placeholder values.
                true => format!("( PATH='{path}'\n{part}\n) >{stdout} 2>{stderr}\n"),
                false => format!("PATH='{path}'\n{{\n{part}\n}} >{stdout} 2>{stderr}\n"),
            });
        }
        script.push(format!("PATH='{path}'\ntouch {}\n", folder("done").display()));
        let file = folder("script");
        fs::write(&file, script.concat()).unwrap();
        let mut shell = Command::new("/bin/bash")
            .arg(&file)
            .current_dir(folder("repository"))
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_PAGER", "")
            .env_remove("AWS_PROFILE")
            .env_remove("TABLE_NAME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait(&mut shell);
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let whole = folder("done").exists();
        (0..parts.len())
            .map(|index| {
                let output = Output {
                    stdout: read(out(index, "stdout")),
                    stderr: read(out(index, "stderr")),
                };
                match whole || out(index + 1, "stdout").exists() {
                    true => Ok(output),
                    false if out(index, "stdout").exists() => {
                        Err(format!("failed: {}{}", output.stdout, output.stderr))
                    }
                    false => Err("not reached".to_owned()),
                }
            })
            .collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.stack.kill();
        let _ = self.stack.wait();
    }
}

/// Waits for the shell, and kills it after `PAGE_TIMEOUT`.
fn wait(shell: &mut Child) {
    let (ended, end) = mpsc::channel::<()>();
    let pid = shell.id().to_string();
    let watch = std::thread::spawn(move || {
        if end.recv_timeout(PAGE_TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").arg(pid).status();
        }
    });
    shell.wait().unwrap();
    drop(ended);
    watch.join().unwrap();
}

#[allow(clippy::disallowed_methods, reason = "the test runs the installed programs")]
pub(crate) fn search_path() -> String {
    std::env::var("PATH").unwrap()
}

fn on_the_path(program: &str) -> bool {
    search_path()
        .split(':')
        .any(|folder| Path::new(folder).join(program).is_file())
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
            ("examples/time_series", ["-p", "patterns", "--examples"]),
        ] {
            if !bin.join(file).exists() {
                let mut cargo = Command::new(env!("CARGO"));
                cargo.current_dir(root()).args(["build", "--quiet"]).args(arguments);
                if bin.ends_with("release") {
                    cargo.arg("--release");
                }
                let built = cargo.status();
                assert!(
                    built.unwrap().success() && bin.join(file).exists(),
                    "{file} does not exist"
                );
            }
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
    BIN/vzero --endpoint-url DYNAMODB --table VersionControl audit --all --lag 0 >/dev/null 2>&1 && exit 0
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

const CARGO: &str = r#"#!/bin/bash
set -euo pipefail
refuse() { echo "not run in this test: cargo $arguments" >&2; exit 97; }
arguments="$*" package= example=
[ "${1-}" = run ] || refuse
shift
while [ $# -gt 0 ]; do
    case "$1" in
        -q | --quiet) ;;
        -p) package=$2; shift ;;
        --example) example=$2; shift ;;
        --) shift; break ;;
        *) refuse ;;
    esac
    shift
done
case "$package $example" in
    "vzero ") exec "$(dirname "$0")/vzero" "$@" ;;
    "local ") ;;
    "patterns "?*) exec "BIN/examples/$example" "$@" ;;
    *) refuse ;;
esac
case " $* " in
    *" --help "*) exec LOCAL "$@" ;;
    *" --once "*) exec LOCAL --dynamodb-port 0 --lambda-port 0 "$@" ;;
esac
# Serves until it is stopped: stop it when it is ready.
coproc LOCAL --dynamodb-port 0 --lambda-port 0 "$@"
pid=$COPROC_PID
while read -r line <&"${COPROC[0]}"; do
    case "$line" in "Serving until"*) kill "$pid"; exit 0 ;; esac
done
echo "the stack did not start" >&2
exit 1
"#;

/// The subset of curl that pages use: a URL and a request body.
const CURL: &str = r#"#!/bin/bash
set -euo pipefail
body= url=
while [ $# -gt 0 ]; do
    case "$1" in
        -d) body=$2; shift ;;
        -s | -S | -f | -sS | -fsS) ;;
        *) url=$1 ;;
    esac
    shift
done
case "$body" in @*) body=$(cat "${body#@}") ;; esac
host=${url#http://}; path=/${host#*/}; host=${host%%/*}
exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
LC_ALL=C
printf 'POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' "$path" "$host" "${#body}" "$body" >&3
while read -r line <&3 && [ "$line" != $'\r' ]; do :; done
cat <&3
"#;

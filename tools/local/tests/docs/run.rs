//! Handles each block of each page according to its class.

use std::{fs, path::Path, process::Command};

use serde_json::{Deserializer, Value};

use crate::{
    output::difference,
    page::{Block, Comment, Page},
    pages, read, root,
    session::{Session, provided},
};

/// Tools that `tools/check-docs` can provide.
const TOOLS: [&str; 1] = ["aws-cli"];
/// Requirements of commands that are only parsed.
const PARSED: [&str; 3] = ["account", "browser", "cargo-lambda"];
/// Beginnings of lines that are commands, and therefore not allowed in a text block.
const PROGRAMS: [&str; 9] = [
    "aws ", "cargo ", "curl ", "just ", "npm ", "pip ", "sam ", "vzero ", "$ ",
];

#[derive(Debug, PartialEq, Eq)]
enum Class {
    Run,
    Parse,
    Skip,
    Ci,
    Update,
    Output,
    Json,
    Text,
    Rust,
    Toml,
    Example,
}

fn class(block: &Block) -> Result<Class, String> {
    use Class::{Ci, Example, Json, Output, Parse, Run, Rust, Skip, Text, Toml, Update};
    let no_class = || {
        Err(format!(
            "unknown block: language {:?}, comments {:?}",
            block.language, block.comments
        ))
    };
    match (block.language.as_str(), &block.comments[..]) {
        ("sh", []) => Ok(Run),
        ("sh", [Comment::RunByCi]) => Ok(Ci),
        ("sh", [Comment::Needs(what)]) if PARSED.contains(&what.as_str()) => Ok(Parse),
        ("sh", [Comment::Needs(what)]) if TOOLS.contains(&what.as_str()) => Ok(if provided(what) { Run } else { Skip }),
        ("json", [Comment::Update]) => Ok(Update),
        ("json" | "text", [Comment::Output]) => Ok(Output),
        ("json", []) => Ok(Json),
        ("text", []) => Ok(Text),
        ("rust,no_run", []) => Ok(Rust),
        ("toml", []) => Ok(Toml),
        ("python" | "js", []) => Ok(Example),
        _ => no_class(),
    }
}

fn check(page: &Page) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts: Vec<(String, bool)> = Vec::new();
    // The block of each part, and the part of each output.
    let (mut blocks, mut outputs) = (Vec::new(), Vec::new());
    let inline = inline(page);
    let needs_a_stack = page
        .blocks
        .iter()
        .chain(&inline)
        .any(|block| ["sh", "json"].contains(&block.language.as_str()));
    let session = needs_a_stack.then(Session::start);
    let mut skipped = false;
    for block in page.blocks.iter().chain(&inline) {
        let class = class(block);
        // The output of a skipped command is unknown.
        skipped = class == Ok(Class::Skip) || (skipped && class == Ok(Class::Output));
        let mut fail = |message: String| errors.push(format!("{}:{}: {message}", page.name, block.line));
        let to_actual = |text: &str| {
            session
                .as_ref()
                .map_or_else(|| text.to_owned(), |session| session.to_actual(text))
        };
        match class {
            Err(message) => fail(message),
            Ok(Class::Skip) => {}
            Ok(Class::Output) if skipped => {}
            Ok(Class::Run) => {
                blocks.push(block);
                parts.push((to_actual(&block.text), false));
            }
            Ok(Class::Parse) => match fill_placeholders(&block.text) {
                Err(message) => fail(message),
                Ok(text) => {
                    blocks.push(block);
                    parts.push((text, true));
                }
            },
            Ok(Class::Update) => match json(&block.text) {
                Err(error) => fail(error),
                Ok(updates) => {
                    blocks.push(block);
                    let lambda = session.as_ref().map(Session::lambda).unwrap_or_default();
                    parts.push((updates.iter().map(|update| invocation(lambda, update)).collect(), false));
                }
            },
            Ok(Class::Output) => match parts.len().checked_sub(1) {
                Some(part) => outputs.push((block, part)),
                None => fail("no block was run before it".to_owned()),
            },
            Ok(Class::Json) => drop(json(&block.text).map_err(fail)),
            Ok(Class::Text) => {
                if let Some(line) = block
                    .text
                    .lines()
                    .find(|line| PROGRAMS.iter().any(|program| line.starts_with(program)))
                {
                    fail(format!("a command in a text block: {line}"));
                }
            }
            Ok(Class::Ci) => drop(by_ci(&block.text).map_err(fail)),
            Ok(Class::Rust) if page.name == "docs/library.md" => {}
            Ok(Class::Rust) => fail("this page is not part of the documentation tests".to_owned()),
            Ok(Class::Toml) => drop(manifest(&block.text).map_err(fail)),
            Ok(Class::Example) if is_in_examples(&block.text) => {}
            Ok(Class::Example) => fail("no program in docs/examples has these lines".to_owned()),
        }
    }
    let Some(session) = session else { return errors };
    let outputs_of_parts = session.run(&parts);
    for (block, output) in blocks.iter().zip(&outputs_of_parts) {
        match output {
            Err(message) => errors.push(format!("{}:{}: {message}\n{}", page.name, block.line, block.text)),
            Ok(output)
                if block.comments == [Comment::Update]
                    && output.stdout.lines().any(|line| !line.contains("\"Written\"")) =>
            {
                errors.push(format!("{}:{}: {}", page.name, block.line, output.stdout));
            }
            Ok(_) => {}
        }
    }
    for (block, part) in outputs {
        let Ok(output) = &outputs_of_parts[part] else { continue };
        if let Some(difference) = difference(&block.text, &session.to_documented(&output.stdout)) {
            errors.push(format!("{}:{}: {difference}\n{}", page.name, block.line, output.stderr));
        }
    }
    errors
}

/// Returns the commands with a word in place of each placeholder `<Name>`. A capitalized name must exist in the template.
fn fill_placeholders(text: &str) -> Result<String, String> {
    let template = fs::read_to_string(root().join("template.yaml")).unwrap();
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, (name, after))) = rest
        .split_once('<')
        .and_then(|(before, rest)| Some((before, rest.split_once('>')?)))
    {
        let is_name = name.starts_with(char::is_uppercase) && !name.contains(' ');
        if is_name && !template.contains(&format!("\n  {name}:\n")) {
            return Err(format!("template.yaml has no {name}"));
        }
        filled += before;
        filled += &name.replace(' ', "-");
        rest = after;
    }
    Ok(filled + rest)
}

/// Returns the inline commands as blocks to parse, with a number in place of each one-letter placeholder such as `N`.
fn inline(page: &Page) -> Vec<Block> {
    let commands = page.codes.iter().filter_map(|(line, code)| {
        let words: Vec<_> = code.trim_end_matches('…').split(' ').collect();
        let parsed = words.len() > 1 && ["vzero", "aws"].contains(&words[0]);
        let number = |word: &&str| word.len() == 1 && word.starts_with(char::is_uppercase);
        let words = words.iter().map(|word| if number(word) { "1" } else { word });
        parsed.then(|| Block {
            line: *line,
            language: "sh".to_owned(),
            text: words.collect::<Vec<_>>().join(" "),
            comments: vec![Comment::Needs("account".to_owned())],
        })
    });
    commands.collect()
}

/// Parses all values of a block. `…` stands for omitted values.
fn json(text: &str) -> Result<Vec<Value>, String> {
    let whole = text.replace(", …", "").replace("…,", "").replace("[…]", "[]");
    let values = Deserializer::from_str(&whole).into_iter::<Value>();
    values
        .collect::<Result<_, _>>()
        .map_err(|error| format!("not JSON: {error}"))
}

fn invocation(lambda: &str, update: &Value) -> String {
    let update = update.to_string().replace('\'', r"'\''");
    format!("curl -sS {lambda}/2015-03-31/functions/writer-fn/invocations -d '{update}'\necho\n")
}

/// Returns `true` if a program in `docs/examples`, which `tools/clients/test` runs, has these lines.
fn is_in_examples(lines: &str) -> bool {
    let mut programs = fs::read_dir(root().join("docs/examples")).unwrap();
    programs.any(|program| fs::read_to_string(program.unwrap().path()).unwrap().contains(lines))
}

/// Checks that CI runs each of these commands.
fn by_ci(text: &str) -> Result<(), String> {
    let mut scripts = fs::read_to_string(root().join(".ci/run")).unwrap();
    for workflow in fs::read_dir(root().join(".github/workflows")).unwrap() {
        scripts += &fs::read_to_string(workflow.unwrap().path()).unwrap();
    }
    for line in text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#'))
    {
        let command = line.split(" #").next().unwrap_or_default().trim();
        // CI builds the optimized binaries once, and runs them directly.
        let program = match command.strip_prefix("cargo run --release -p ") {
            Some(rest) => format!("target/release/{}", rest.split(' ').next().unwrap_or_default()),
            None if command.starts_with("tools/") => command.split(' ').next().unwrap_or_default().to_owned(),
            None => command.to_owned(),
        };
        if !scripts.contains(&program) {
            return Err(format!("CI does not run {command}"));
        }
    }
    Ok(())
}

fn manifest(dependencies: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = Path::new("dynamodb-version-control");
    std::os::unix::fs::symlink(root(), folder.path().join(path)).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/lib.rs"), "").unwrap();
    let manifest = format!("[package]\nname = \"service\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{dependencies}");
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&cargo.stderr).into_owned();
    if !cargo.status.success() {
        return Err(stderr);
    }
    let metadata: Value = serde_json::from_slice(&cargo.stdout).unwrap();
    let dependencies = metadata["packages"][0]["dependencies"].as_array().unwrap();
    let missing = dependencies
        .iter()
        .filter_map(|dependency| dependency["path"].as_str())
        .find(|path| !Path::new(path).join("Cargo.toml").is_file());
    missing.map_or(Ok(()), |path| Err(format!("{path} is not a crate")))
}

#[test]
fn every_command_runs_and_prints_the_shown_output() {
    let pages: Vec<Page> = pages().iter().map(|name| read(name)).collect();
    // Pages run concurrently, because a page mostly waits.
    let errors: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = pages.iter().map(|page| scope.spawn(|| check(page))).collect();
        running.into_iter().flat_map(|page| page.join().unwrap()).collect()
    });
    assert!(errors.is_empty(), "{}", errors.join("\n\n"));
}

#[test]
fn errors_in_a_page_are_found() {
    let errors = |text: &str| check(&Page::parse("p", text)).join("\n");
    for (text, message) in [
        ("```sh\nfalse\n```", "p:1: failed"),
        ("```sh\nnosuchprogram\n```", "command not found"),
        ("```sh\ncargo test --workspace\n```", "not run in this test"),
        (
            "```sh\necho a\n```\n\n<!-- output -->\n```text\nb\n```",
            "p:6: shown:\nb\n\nactual:\na",
        ),
        ("<!-- output -->\n```text\nb\n```", "no block was run before it"),
        ("```\nls\n```", "unknown block: language \"\""),
        ("```console\n$ ls\n```", "unknown block: language \"console\""),
        ("<!-- needs: a moon -->\n```sh\nls\n```", "unknown block"),
        (
            "```text\nvzero history A\n```",
            "a command in a text block: vzero history A",
        ),
        ("```json\n{\"a\": }\n```", "not JSON"),
        (
            "<!-- update -->\n```json\n{\"ID\": \"A\", \"PK\": 1}\n```",
            "PK is reserved",
        ),
        (
            "<!-- needs: account -->\n```sh\nvzero audit --everything\n```",
            "--everything",
        ),
        ("<!-- needs: account -->\n```sh\nvzero audit <id>\nls\n```", "ls: "),
        (
            "<!-- needs: account -->\n```sh\nvzero audit <NoSuchOutput>\n```",
            "template.yaml has no NoSuchOutput",
        ),
        ("Type `vzero audit --everything`.", "--everything"),
        (
            "<!-- run by: ci -->\n```sh\ncargo test --frobnicate\n```",
            "CI does not run cargo test --frobnicate",
        ),
        ("```python\nprint()\n```", "no program in docs/examples has these lines"),
        (
            "```rust,no_run\nfn main() {}\n```",
            "not part of the documentation tests",
        ),
        (
            "```toml\n[dependencies]\nshared = { path = \"dynamodb-version-control/none\" }\n```",
            "is not a crate",
        ),
    ] {
        assert!(errors(text).contains(message), "{text}: {}", errors(text));
    }
}

#[test]
fn valid_blocks_pass() {
    let page = Page::parse(
        "p",
        "<!-- first: f() { echo \"$1\"; } -->\n\n```sh\nf 1\nX=2\n```\n\n<!-- output -->\n```text\n1\n```\n\n```sh\nf $X\ncurl http://127.0.0.1:9001/2015-03-31/functions/writer-fn/invocations -d '{\"ID\": \"é#1\"}'\n```\n\n\
         <!-- output -->\n```json\n2\n{\"ID\":\"é#1\",\"Version\":1,\"Outcome\":\"Written\"}\n```\n\n<!-- needs: account -->\n```sh\nvzero audit <id> > x\n```\n\n\
         <!-- run by: ci -->\n```sh\ncargo test --workspace   # all\n```\n",
    );
    assert_eq!(check(&page), [""; 0]);
}

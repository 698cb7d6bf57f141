//! Every block of every page, by what it is.

use std::{fs, path::Path, process::Command};

use serde_json::{Deserializer, Value};

use crate::{
    output::difference,
    page::{Block, Comment, Page},
    pages, read, root,
    session::{Session, provided},
};

/// What can be provided, see `tools/check-docs`.
const TOOLS: [&str; 1] = ["aws-cli"];
/// What is needed by commands that are only parsed.
const PARSED: [&str; 3] = ["account", "browser", "cargo-lambda"];
/// With what no text begins that is not to be run.
const PROGRAMS: [&str; 9] = [
    "aws ", "cargo ", "curl ", "just ", "npm ", "pip ", "sam ", "vzero ", "$ ",
];

/// What is done with a block.
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
}

fn class(block: &Block) -> Result<Class, String> {
    use Class::{Ci, Json, Output, Parse, Run, Rust, Skip, Text, Toml, Update};
    let no_class = || {
        Err(format!(
            "nobody knows what to do with {:?} and {:?}",
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
        _ => no_class(),
    }
}

/// The page, and everything in it that is not as it says.
fn check(page: &Page) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut parts: Vec<(String, bool)> = Vec::new();
    // Each part's block, and each output's part.
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
        // What a command says that was not run is not known.
        skipped = class == Ok(Class::Skip) || (skipped && class == Ok(Class::Output));
        let mut fail = |message: String| wrong.push(format!("{}:{}: {message}", page.name, block.line));
        let here = |text: &str| {
            session
                .as_ref()
                .map_or_else(|| text.to_owned(), |session| session.here(text))
        };
        match class {
            Err(message) => fail(message),
            Ok(Class::Skip) => {}
            Ok(Class::Output) if skipped => {}
            Ok(Class::Run) => {
                blocks.push(block);
                parts.push((here(&block.text), false));
            }
            Ok(Class::Parse) => match named(&block.text) {
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
                    parts.push((updates.iter().map(|update| sent(lambda, update)).collect(), false));
                }
            },
            Ok(Class::Output) => match parts.len().checked_sub(1) {
                Some(part) => outputs.push((block, part)),
                None => fail("nothing was run before it".to_owned()),
            },
            Ok(Class::Json) => drop(json(&block.text).map_err(fail)),
            Ok(Class::Text) => {
                if let Some(line) = block
                    .text
                    .lines()
                    .find(|line| PROGRAMS.iter().any(|program| line.starts_with(program)))
                {
                    fail(format!("this is to be run: {line}"));
                }
            }
            Ok(Class::Ci) => drop(by_ci(&block.text).map_err(fail)),
            Ok(Class::Rust) if page.name == "docs/library.md" => {}
            Ok(Class::Rust) => fail("this page is not among the documentation's tests".to_owned()),
            Ok(Class::Toml) => drop(manifest(&block.text).map_err(fail)),
        }
    }
    let Some(session) = session else { return wrong };
    let said = session.run(&parts);
    for (block, said) in blocks.iter().zip(&said) {
        match said {
            Err(message) => wrong.push(format!("{}:{}: {message}\n{}", page.name, block.line, block.text)),
            Ok(said)
                if block.comments == [Comment::Update]
                    && said.stdout.lines().any(|line| !line.contains("\"Written\"")) =>
            {
                wrong.push(format!("{}:{}: {}", page.name, block.line, said.stdout));
            }
            Ok(_) => {}
        }
    }
    for (block, part) in outputs {
        let Ok(said) = &said[part] else { continue };
        if let Some(difference) = difference(&block.text, &session.usual(&said.stdout)) {
            wrong.push(format!("{}:{}: {difference}\n{}", page.name, block.line, said.stderr));
        }
    }
    wrong
}

/// The commands, with a word in place of each `<Name>`, which the template has to know if it is one.
fn named(text: &str) -> Result<String, String> {
    let template = fs::read_to_string(root().join("template.yaml")).unwrap();
    let mut named = String::new();
    let mut rest = text;
    while let Some((before, (name, after))) = rest
        .split_once('<')
        .and_then(|(before, rest)| Some((before, rest.split_once('>')?)))
    {
        let is_name = name.starts_with(char::is_uppercase) && !name.contains(' ');
        if is_name && !template.contains(&format!("\n  {name}:\n")) {
            return Err(format!("template.yaml has no {name}"));
        }
        named += before;
        named += &name.replace(' ', "-");
        rest = after;
    }
    Ok(named + rest)
}

/// Commands in the middle of the text are parsed: `ID` and `N` are as good as any id and number.
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

/// All values of a block. `…` stands for what is left out.
fn json(text: &str) -> Result<Vec<Value>, String> {
    let whole = text.replace(", …", "").replace("…,", "").replace("[…]", "[]");
    let values = Deserializer::from_str(&whole).into_iter::<Value>();
    values
        .collect::<Result<_, _>>()
        .map_err(|error| format!("it is not JSON: {error}"))
}

/// The command that sends an update to writer-fn.
fn sent(lambda: &str, update: &Value) -> String {
    let update = update.to_string().replace('\'', r"'\''");
    format!("curl -sS {lambda}/2015-03-31/functions/writer-fn/invocations -d '{update}'\necho\n")
}

/// Whether CI runs each of these.
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
        // CI builds what is optimised once, and starts it several times.
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

/// Whether cargo takes these dependencies.
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
    let says = String::from_utf8_lossy(&cargo.stderr).into_owned();
    if !cargo.status.success() {
        return Err(says);
    }
    let read: Value = serde_json::from_slice(&cargo.stdout).unwrap();
    let named = read["packages"][0]["dependencies"].as_array().unwrap();
    let missing = named
        .iter()
        .filter_map(|dependency| dependency["path"].as_str())
        .find(|path| !Path::new(path).join("Cargo.toml").is_file());
    missing.map_or(Ok(()), |path| Err(format!("{path} is no crate")))
}

#[test]
fn every_command_runs_and_what_is_shown_comes_out() {
    let pages: Vec<Page> = pages().iter().map(|name| read(name)).collect();
    // One after the other: most of the time a page waits.
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = pages.iter().map(|page| scope.spawn(|| check(page))).collect();
        running.into_iter().flat_map(|page| page.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn what_a_page_should_not_have_is_found() {
    let found = |text: &str| check(&Page::parse("p", text)).join("\n");
    for (text, message) in [
        ("```sh\nfalse\n```", "p:1: failed"),
        ("```sh\nnosuchprogram\n```", "command not found"),
        ("```sh\ncargo test --workspace\n```", "this is not run here"),
        (
            "```sh\necho a\n```\n\n<!-- output -->\n```text\nb\n```",
            "p:6: shown:\nb\n\nsaid:\na",
        ),
        ("<!-- output -->\n```text\nb\n```", "nothing was run before it"),
        ("```\nls\n```", "nobody knows what to do with \"\""),
        ("```console\n$ ls\n```", "nobody knows what to do with \"console\""),
        ("<!-- needs: a moon -->\n```sh\nls\n```", "nobody knows"),
        ("```text\nvzero history A\n```", "this is to be run: vzero history A"),
        ("```json\n{\"a\": }\n```", "it is not JSON"),
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
        (
            "```rust,no_run\nfn main() {}\n```",
            "not among the documentation's tests",
        ),
        (
            "```toml\n[dependencies]\nshared = { path = \"dynamodb-version-control/none\" }\n```",
            "is no crate",
        ),
    ] {
        assert!(found(text).contains(message), "{text}: {}", found(text));
    }
}

#[test]
fn what_a_page_may_have_is_run() {
    let page = Page::parse(
        "p",
        "<!-- first: f() { echo \"$1\"; } -->\n\n```sh\nf 1\nX=2\n```\n\n<!-- output -->\n```text\n1\n```\n\n```sh\nf $X\ncurl http://127.0.0.1:9001/2015-03-31/functions/writer-fn/invocations -d '{\"ID\": \"é#1\"}'\n```\n\n\
         <!-- output -->\n```json\n2\n{\"ID\":\"é#1\",\"Version\":1,\"Outcome\":\"Written\"}\n```\n\n<!-- needs: account -->\n```sh\nvzero audit <id> > x\n```\n\n\
         <!-- run by: ci -->\n```sh\ncargo test --workspace   # all\n```\n",
    );
    assert_eq!(check(&page), [""; 0]);
}

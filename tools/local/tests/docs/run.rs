//! Handles each block of each page according to its class.

use std::fs;

use serde_json::{Deserializer, Value};

use crate::{
    output::difference,
    page::{Block, Page},
    pages, read, root,
    session::{Session, provided},
};

/// Tools that `tools/check-docs` can provide.
const TOOLS: [&str; 1] = ["aws-cli"];
/// Requirements of commands that are only parsed.
const PARSED: [&str; 3] = ["account", "browser", "cargo-lambda"];
/// Comment of updates.
const UPDATE: &str = "update";
/// Beginnings of lines that are commands, and therefore not allowed in a text block.
const PROGRAMS: [&str; 9] = [
    "aws ", "cargo ", "curl ", "just ", "npm ", "pip ", "sam ", "vzero ", "$ ",
];

/// Action of a test for a block.
enum Step {
    /// Runs these commands, or only parses them.
    Run { commands: String, is_parsed: bool },
    /// Compares the block with the output of the commands before it.
    Output,
    /// Nothing: the tool is not provided, so the output is unknown.
    Skip,
    /// Nothing more.
    Checked,
}

fn step(page: &Page, block: &Block, session: Option<&Session>) -> Result<Step, String> {
    let text = &block.text;
    let to_actual = |text: &str| session.map_or_else(|| text.to_owned(), |session| session.to_actual(text));
    let checked = |checked: Result<(), String>| checked.map(|()| Step::Checked);
    let run = |commands, is_parsed| Ok(Step::Run { commands, is_parsed });
    let comments: Vec<_> = block.comments.iter().map(String::as_str).collect();
    let needs = |comment: &str, what: &[&str]| comment.strip_prefix("needs: ").is_some_and(|tool| what.contains(&tool));
    match (block.language.as_str(), &comments[..]) {
        ("sh", []) => run(to_actual(text), false),
        ("sh", ["run by: ci"]) => checked(by_ci(text)),
        ("sh", [comment]) if needs(comment, &PARSED) => run(fill_placeholders(text)?, true),
        ("sh", [comment]) if needs(comment, &TOOLS) => match provided(&comment["needs: ".len()..]) {
            true => run(to_actual(text), false),
            false => Ok(Step::Skip),
        },
        ("json", [UPDATE]) => {
            let updates: String = json(text)?.iter().map(invocation).collect();
            run(to_actual(&updates), false)
        }
        ("json" | "text", ["output"]) => Ok(Step::Output),
        ("json", []) => checked(json(text).map(drop)),
        ("text", []) => {
            let is_command = |line: &&str| PROGRAMS.iter().any(|program| line.starts_with(program));
            let command = text.lines().find(is_command);
            checked(command.map_or(Ok(()), |line| Err(format!("a command in a text block: {line}"))))
        }
        ("rust,no_run", []) if page.name == "docs/library.md" => Ok(Step::Checked),
        ("rust,no_run", []) => Err("this page is not part of the documentation tests".to_owned()),
        ("toml", []) => checked(manifest(text)),
        ("python" | "js", []) if is_in_examples(text) => Ok(Step::Checked),
        ("python" | "js", []) => Err("no program in docs/examples has these lines".to_owned()),
        (language, comments) => Err(format!("unknown block: language {language:?}, comments {comments:?}")),
    }
}

/// Returns what is wrong with a page. `session` is that of the page, if it has commands.
fn check(page: &Page, session: Option<&Session>) -> Vec<String> {
    let inline = inline(page);
    let blocks = || page.blocks.iter().chain(&inline);
    let error = |block: &Block, message: &str| format!("{}:{}: {message}", page.name, block.line);
    let (mut errors, mut is_skipped) = (Vec::new(), false);
    // The parts of the script with their blocks, and the blocks of outputs with the number of their part.
    let (mut parts, mut run, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    for block in blocks() {
        match step(page, block, session) {
            Err(message) => errors.push(error(block, &message)),
            Ok(Step::Run { commands, is_parsed }) => {
                is_skipped = false;
                parts.push((commands, is_parsed));
                run.push(block);
            }
            Ok(Step::Output) if is_skipped => {}
            Ok(Step::Output) if parts.is_empty() => errors.push(error(block, "no block was run before it")),
            Ok(Step::Output) => outputs.push((block, parts.len() - 1)),
            Ok(Step::Skip) => is_skipped = true,
            Ok(Step::Checked) => is_skipped = false,
        }
    }
    let Some(session) = session else { return errors };
    let results = session.run(&parts);
    for (block, result) in run.iter().zip(&results) {
        let is_rejected = |line: &str| block.comments == [UPDATE] && !line.contains("\"Written\"");
        match result {
            Err(message) => errors.push(error(block, &format!("{message}\n{}", block.text))),
            Ok(output) if output.stdout.lines().any(is_rejected) => errors.push(error(block, &output.stdout)),
            Ok(_) => {}
        }
    }
    for (block, part) in outputs {
        let Ok(output) = &results[part] else { continue };
        let difference = difference(&block.text, &session.to_documented(&output.stdout));
        errors.extend(difference.map(|difference| error(block, &format!("{difference}\n{}", output.stderr))));
    }
    errors
}

/// Returns the commands with a word in place of each placeholder `<Name>`. A capitalized name must exist in the template.
fn fill_placeholders(text: &str) -> Result<String, String> {
    let template = fs::read_to_string(root().join("template.yaml")).unwrap();
    let (mut filled, mut rest) = (String::new(), text);
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
        let is_number = |word: &str| word.len() == 1 && word.starts_with(char::is_uppercase);
        let filled = words.iter().map(|word| if is_number(word) { "1" } else { word });
        (words.len() > 1 && ["vzero", "aws"].contains(&words[0])).then(|| Block {
            line: *line,
            language: "sh".to_owned(),
            text: filled.collect::<Vec<_>>().join(" "),
            comments: vec!["needs: account".to_owned()],
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

fn invocation(update: &Value) -> String {
    let update = update.to_string().replace('\'', r"'\''");
    format!("curl -sS http://127.0.0.1:9001/2015-03-31/functions/writer-fn/invocations -d '{update}'\necho\n")
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
    let commands = text
        .lines()
        .map(|line| line.split(" #").next().unwrap_or_default().trim());
    for command in commands.filter(|command| !command.is_empty() && !command.starts_with('#')) {
        let first = |words: &str| words.split(' ').next().unwrap_or_default().to_owned();
        // CI runs the programs of the tests.
        let program = match command.strip_prefix("cargo run --release -p ") {
            Some(rest) => format!("$programs/{}", first(rest)),
            None if command.starts_with("tools/") => first(command),
            None => command.to_owned(),
        };
        if !scripts.contains(&program) {
            return Err(format!("CI does not run {command}"));
        }
    }
    Ok(())
}

/// Checks that the paths of dependencies, in a manifest beside the repository, are crates of it.
fn manifest(dependencies: &str) -> Result<(), String> {
    let paths = dependencies
        .split("path = \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let is_crate = |path: &str| {
        let inside = path.split_once("dynamodb-version-control/");
        inside.is_some_and(|(_, inside)| root().join(inside).join("Cargo.toml").is_file())
    };
    let missing = paths.clone().find(|path| !is_crate(path));
    match (missing, paths.count()) {
        (Some(path), _) => Err(format!("{path} is not a crate")),
        (None, 0) => Err("no dependency has a path".to_owned()),
        (None, _) => Ok(()),
    }
}

#[test]
fn every_command_runs_and_prints_the_shown_output() {
    let pages: Vec<Page> = pages().iter().map(|name| read(name)).collect();
    // Pages run concurrently, because a page mostly waits.
    let check = |page: &Page| {
        let has_commands = |block: &Block| ["sh", "json"].contains(&block.language.as_str());
        let needs_a_stack = page.blocks.iter().any(has_commands) || !inline(page).is_empty();
        check(
            page,
            needs_a_stack
                .then(|| Session::start(page.name == "docs/attach.md"))
                .as_ref(),
        )
    };
    let errors: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = pages.iter().map(|page| scope.spawn(move || check(page))).collect();
        running.into_iter().flat_map(|page| page.join().unwrap()).collect()
    });
    assert!(errors.is_empty(), "{}", errors.join("\n\n"));
}

#[test]
fn errors_in_a_page_are_found() {
    let session = Session::start(false);
    for (comment, language, text, message) in [
        ("", "sh", "false", "p:1: failed"),
        ("", "sh", "nosuchprogram", "command not found"),
        ("", "sh", "cargo test --workspace", "not run in this test"),
        ("output", "text", "b", "no block was run before it"),
        ("", "", "ls", "unknown block: language \"\""),
        ("", "console", "$ ls", "unknown block: language \"console\""),
        ("needs: a moon", "sh", "ls", "unknown block"),
        ("ouput", "text", "x", "unknown block"),
        ("", "text", "vzero get A", "a command in a text block: vzero get A"),
        ("", "json", "{\"a\": }", "not JSON"),
        ("update", "json", "{\"ID\": \"A\", \"PK\": 1}", "PK is reserved"),
        ("needs: account", "sh", "vzero audit --everything", "--everything"),
        ("needs: account", "sh", "vzero audit <id>\nls", "ls: "),
        (
            "needs: account",
            "sh",
            "vzero audit <None>",
            "template.yaml has no None",
        ),
        ("run by: ci", "sh", "cargo test --x", "CI does not run cargo test --x"),
        ("", "python", "print()", "no program in docs/examples"),
        ("", "rust,no_run", "fn f() {}", "not part of the documentation tests"),
        ("", "toml", "[dependencies]\na = { path = \"b\" }", "is not a crate"),
        (
            "-->\n```sh\necho a\n```\n<!-- output",
            "text",
            "b",
            "p:5: shown:\nb\n\nactual:\na",
        ),
        ("-->\n```sh\necho acd\n```\n<!-- output", "text", "a…c", "actual:\nacd"),
        ("-->\n```sh\necho a; echo b\n```\n<!-- output", "text", "…\na", "a\nb"),
        ("", "text", "```\n`vzero audit --everything`\n```text", "--everything"),
    ] {
        let page = format!("<!-- {comment} -->\n```{language}\n{text}\n```");
        let page = page.replace("<!--  -->\n", "").replace("<!-- -->\n", "");
        let errors = check(&Page::parse("p", &page), Some(&session)).join("\n");
        assert!(errors.contains(message), "{page}: {errors}");
    }
}

//! Output on a terminal: its width and its pager.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    process::{ExitStatus, Stdio},
};

use nix::pty::{Winsize, openpty};
use serde_json::{Value, json};
use testkit::{
    attached::{Orders, state},
    command::Arguments,
    table::Table,
    vzero::Vzero,
};

/// Runs the command on a terminal of this width, answers a question with no, and returns the output.
pub(crate) fn run(
    vzero: &Vzero,
    columns: u16,
    pager: &str,
    arguments: &(impl Arguments + ?Sized),
) -> (ExitStatus, String) {
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = openpty(&size, None).unwrap();
    let side = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut command = vzero.command(arguments);
    command.env("TERM", "xterm-256color").env("PAGER", pager);
    let mut child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
    // Only the child and its pager hold the terminal now, so the output ends with them.
    drop((command, pty.slave));
    let mut terminal = File::from(pty.master);
    terminal.write_all(b"no\n").unwrap();
    let (mut output, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = terminal.read(&mut bytes) {
        output.extend_from_slice(&bytes[..count]);
    }
    (child.wait().unwrap(), String::from_utf8(output).unwrap())
}

/// Runs the command on a terminal of 80 columns, and returns the lines of its output.
fn on_terminal(table: &Table, pager: &str, arguments: &str) -> (ExitStatus, Vec<String>) {
    let (status, output) = run(table, 80, pager, arguments);
    let lines = output.lines().map(|line| line.trim_end_matches('\r').to_owned());
    // The terminal shows the answer.
    (status, lines.skip(1).collect())
}

/// Returns a table whose entities have one version each: with a long value, and with many attributes.
fn new_table() -> Table {
    let table = crate::new_table();
    let many: serde_json::Map<_, _> = (0..20).map(|n| (format!("Attribute{n}"), json!("value"))).collect();
    for (id, attributes) in [
        ("Long", json!({"State": "x".repeat(300), "Qty": 5})),
        ("Wide", json!({"State": "宽".repeat(300)})),
        ("Many", Value::Object(many)),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), attributes.to_string()).unwrap();
        table.json(
            &["put", "--mode", "inline", id, "--json", file.path().to_str().unwrap()],
            0,
        );
    }
    table
}

#[test]
fn tables_fit_80_columns() {
    let table = new_table();
    for arguments in [
        "get Long",
        "get Many",
        "get Wide",
        "items Long",
        "items Many",
        "metadata Long --set Name=n",
    ] {
        let (status, lines) = on_terminal(&table, "cat", arguments);
        assert!(status.success(), "{lines:#?}");
        let widest = lines
            .iter()
            .map(|line| console::measure_text_width(line))
            .max()
            .unwrap();
        assert!(widest <= 80, "{arguments:?} has {widest} columns: {lines:#?}");
    }
    let (_, lines) = on_terminal(&table, "cat", "get Long");
    assert!(lines.iter().any(|line| line.contains("xxx…")), "{lines:#?}");
    assert_eq!(
        lines.last().unwrap(),
        "(values that end with … are shortened: --full shows them)"
    );
    let (_, lines) = on_terminal(&table, "cat", "log Long --full");
    assert!(lines.iter().any(|line| line.contains(&"x".repeat(300))), "{lines:#?}");
    let (_, lines) = on_terminal(&table, "cat", "items Many");
    assert!(lines.iter().any(|line| line == "Attribute19  value"), "{lines:#?}");
    // Only a terminal gets colors.
    let (_, lines) = on_terminal(&table, "cat", "show Long");
    assert!(
        lines.iter().any(|line| line.contains("\u{1b}[32m+ 5\u{1b}[0m")),
        "{lines:#?}"
    );
    assert!(!table.run("--output table show Long").stdout.contains('\u{1b}'));
    // Without a terminal, nothing is shortened.
    let whole = table.run("--output table log Long --full").stdout;
    assert!(whole.contains(&"x".repeat(300)) && !whole.contains('…'), "{whole}");
}

#[test]
fn reads_are_shown_in_the_pager() {
    let table = new_table();
    let is_paged = |arguments: &str| {
        let (status, lines) = on_terminal(&table, "sed 's/^/paged: /'", arguments);
        let paged = lines.iter().filter(|line| line.starts_with("paged: ")).count();
        assert!(paged == 0 || paged == lines.len(), "{arguments:?}: {lines:#?}");
        assert!(!lines.is_empty(), "{arguments:?}");
        (status.code(), paged > 0)
    };
    for arguments in [
        "get Long",
        "log Long --full",
        "log Long",
        "blame Long",
        "items Long",
        "plan --updates-per-second 10 --entities 50 --item-bytes 500",
    ] {
        assert_eq!(is_paged(arguments), (Some(0), true), "{arguments:?}");
    }
    for (arguments, code) in [
        ("get Long --no-pager", 0),
        ("get Long --output json", 0),
        ("get Other", 3),
        ("get --pager cat Long", 0),
        ("get --pager 'no-such-program -x' Long", 0),
        ("put Long --set A=1", 0),
    ] {
        assert_eq!(is_paged(arguments), (Some(code), false), "{arguments:?}");
    }
    // A pager that is closed early ends the command without an error.
    let (status, lines) = on_terminal(&table, "head -n 1", "log Many --full");
    assert!(status.success() && lines.len() == 1, "{lines:#?}");
}

#[test]
fn an_answer_of_no_changes_nothing() {
    let (table, orders) = (new_table(), Orders::new(crate::VZERO));
    orders.put(1, &state("a"));
    orders.deliver_all();
    orders.put(1, &state("b"));
    let before = table.items();
    for (vzero, arguments) in [
        (&*table, "purge Long --wait 0s"),
        (&*table, "prune --all --keep 1"),
        (&*table, "redrive quarantine:"),
        (&*table, "table adopt"),
        (&*orders, "put {\"customer\":\"c\",\"no\":1} --set state=c"),
        (&*orders, "backfill"),
        (&*table, "log --all --max-cost 0"),
    ] {
        let (status, output) = run(vzero, 1000, "cat", arguments);
        let is_refused = output.contains("[y/N]") && output.contains("not confirmed, nothing ");
        assert!(status.code() == Some(2) && is_refused, "{arguments}: {output}");
    }
    assert_eq!((table.items(), orders.item(1)), (before, state("b")));
    assert_eq!(orders.versions(1), ["v1 a"]);
}

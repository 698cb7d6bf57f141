//! The command `local` on a terminal.

use std::{
    fs::File,
    io::Read as _,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use nix::pty::{Winsize, openpty};
use serde_json::json;

use crate::{
    serving::post,
    support::{PROGRAM, root},
};

const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct OnTerminal {
    child: Child,
    output: Receiver<Vec<u8>>,
    raw: Vec<u8>,
    screen: vt100::Parser,
}

impl OnTerminal {
    fn start(rows: u16, columns: u16, variables: &[(&str, &str)]) -> Self {
        Self::start_with(rows, columns, &[], variables)
    }

    pub(crate) fn start_with(rows: u16, columns: u16, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).unwrap();
        let side = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = Command::new(PROGRAM);
        command
            .current_dir(root())
            .args(["--dynamodb-port", "0", "--lambda-port", "0"])
            .args(arguments)
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(side())
            .stderr(side());
        let child = command.spawn().unwrap();
        // Only the child holds the terminal now, so the output ends with the child.
        drop((command, pty.slave));
        let (send, output) = mpsc::channel();
        let mut terminal = File::from(pty.master);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = terminal.read(&mut bytes) {
                if send.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            output,
            raw: Vec::new(),
            screen: vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0),
        }
    }

    /// Reads until the screen matches.
    fn until(&mut self, shown: impl Fn(&[String]) -> bool) -> Vec<String> {
        loop {
            let rows = self.rows();
            if shown(&rows) {
                return rows;
            }
            let Ok(bytes) = self.output.recv_timeout(TIMEOUT) else {
                panic!("nothing more comes: {rows:#?}");
            };
            self.screen.process(&bytes);
            self.raw.extend(bytes);
        }
    }

    fn rows(&self) -> Vec<String> {
        let screen = self.screen.screen();
        let mut rows: Vec<_> = screen
            .rows(0, screen.size().1.into())
            .map(|row| row.trim_end().to_owned())
            .collect();
        while rows.pop_if(|row| row.is_empty()).is_some() {}
        rows
    }

    /// Waits for the end of the command, and returns its output.
    pub(crate) fn end(mut self) -> String {
        while let Ok(bytes) = self.output.recv_timeout(TIMEOUT) {
            self.raw.extend(bytes);
        }
        self.kill()
    }

    fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        String::from_utf8_lossy(&self.raw).into_owned()
    }
}

/// Returns `true` if the last rows start with these texts.
fn ends(rows: &[String], end: &[&str]) -> bool {
    rows.len() >= end.len()
        && rows[rows.len() - end.len()..]
            .iter()
            .zip(end)
            .all(|(row, end)| row.starts_with(end))
}

fn served(rows: &[String], end: &[&str]) -> bool {
    rows.iter().any(|row| row.contains("history Equipment#1")) && ends(rows, end)
}

#[test]
fn the_status_block_is_redrawn_below_the_other_output() {
    // High enough that nothing scrolls away.
    let mut terminal = OnTerminal::start(300, 100, &[]);
    let end = |updates: &'static str, versions: &'static str| {
        ["", updates, versions, "rates     ", "stream    ", "failures  none"]
    };
    let rows = terminal.until(|rows| served(rows, &end("updates   8 Written", "history   8 versions · lag ")));
    let lambda = rows
        .iter()
        .find_map(|row| row.strip_prefix("Lambda    http://"))
        .unwrap();
    let lambda = lambda.split(' ').next().unwrap().to_owned();
    let invoke = |update| post(&lambda, "/2015-03-31/functions/writer-fn/invocations", "", &update);
    assert_eq!(invoke(json!({"ID": "Seen#1"}))["Version"], 1);
    assert_eq!(
        invoke(json!({"ID": "Seen#1", "ExpectedVersion": 7}))["errorType"],
        "VersionConflict"
    );
    let rows = terminal.until(|rows| {
        let updates = "updates   9 Written · 1 VersionConflict";
        let error = "error     writer-fn: VersionConflict: ";
        let end = [&end(updates, "history   9 versions · lag ")[..], &[error]].concat();
        served(rows, &end)
    });
    let command = |name: &str| rows.iter().filter(|row| row.starts_with(&format!("  {name}"))).count();
    assert_eq!(
        ["curl http://", "cargo run -p vzero -- "].map(command),
        [1; 2],
        "{rows:#?}"
    );
    let console = rows.iter().find_map(|row| row.strip_prefix("console   ")).unwrap();
    // The address can be longer than a row of the terminal.
    let address = format!("  {console}");
    assert!(rows.iter().any(|row| row.starts_with(&address)), "{rows:#?}");
    // The screen has all other output, and only the last status block.
    let text = rows.join("\n");
    for (start, times) in [
        ("DynamoDB  http://", 1),
        ("logs      ", 1),
        ("fed: 8 Written", 1),
        ("Serving until Ctrl-C.", 1),
        ("│ Press#12 ┆ v4 ┆", 1),
        ("updates   ", 1),
        ("history   ", 1),
        ("stream    ", 1),
        ("feed ", 0),
        ("rates     ", 1),
        ("failures  ", 2),
        ("error     ", 1),
        ("error: ", 0),
    ] {
        assert_eq!(
            rows.iter().filter(|row| row.starts_with(start)).count(),
            times,
            "{start} in {text}"
        );
    }
    let raw = terminal.kill();
    assert!(raw.contains("\u{1b}[31m1 VersionConflict"), "bad news are red");
}

#[test]
fn lines_fit_into_a_narrow_terminal() {
    let mut terminal = OnTerminal::start(16, 34, &[]);
    let end = [
        "",
        "updates   8 Written",
        "history   8 versions",
        "          lag ",
        "rates     ",
        "          ",
        "stream    ",
        "          0 bisected",
        "failures  none",
    ];
    // It would fit with a lag of one digit.
    let wide = [
        "",
        "updates   8 Written",
        "history   8 versions · lag ",
        "rates     ",
        "          ",
        "stream    ",
        "          0 bisected",
        "failures  none",
    ];
    let rows = terminal.until(|rows| ends(rows, &end) || ends(rows, &wide));
    assert_eq!(
        rows.iter().filter(|row| row.starts_with("updates ")).count(),
        1,
        "{rows:#?}"
    );
    terminal.kill();
}

#[test]
fn no_colours_with_no_color_and_no_cursor_movement_on_a_dumb_terminal() {
    let mut plain = OnTerminal::start(300, 100, &[("NO_COLOR", "1")]);
    plain.until(|rows| served(rows, &["failures  none"]));
    let raw = plain.kill();
    let coloured = raw.split("\u{1b}[").skip(1).find(|rest| {
        rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';')
            .starts_with('m')
    });
    assert_eq!(coloured, None);

    let mut dumb = OnTerminal::start(300, 200, &[("TERM", "dumb")]);
    dumb.until(|rows| {
        rows.iter()
            .any(|row| row.starts_with("status updates=8 refused=0 versions=8 waiting=0 "))
    });
    let raw = dumb.kill();
    assert!(!raw.contains('\u{1b}'), "{raw:?}");
}

//! The address that the command of the web browser receives as its argument, which other users can read in the process list.

use std::{
    fs::{self, OpenOptions, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Command,
};

use tempfile::TempDir;
use testkit::{table::Table, wait::eventually};

use crate::{new_table, served::Console};

/// A folder with an `xdg-open` that stores its arguments, and runs until this value is dropped.
struct Opener(TempDir);

impl Opener {
    fn new() -> Self {
        let opener = Self(tempfile::tempdir().unwrap());
        let [arguments, hold] = [opener.path("arguments"), opener.path("hold")].map(|path| path.display().to_string());
        assert!(Command::new("mkfifo").arg(&hold).status().unwrap().success());
        let script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" > {arguments}.new\nmv {arguments}.new {arguments}\nread line < {hold}\n"
        );
        fs::write(opener.path("xdg-open"), script).unwrap();
        fs::set_permissions(opener.path("xdg-open"), Permissions::from_mode(0o755)).unwrap();
        opener
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts a console that opens the browser, and returns it with the token of the only argument of the command.
    fn console(&self, table: &Table, environment: &[(&str, &str)]) -> (Console, String) {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.0.path().display());
        let environment = [environment, &[("PATH", path.as_str())]].concat();
        let console = Console::start(table, &environment, "");
        let arguments = table.runtime.block_on(eventually("call of xdg-open", async || {
            fs::read_to_string(self.path("arguments")).ok()
        }));
        let token = arguments
            .trim_end()
            .strip_prefix(&format!("http://{}/?token=", console.address));
        let token = token.unwrap_or_else(|| panic!("{arguments}")).to_owned();
        assert!(
            token.len() >= 32 && token.chars().all(|c| c.is_ascii_alphanumeric()),
            "{token}"
        );
        (console, token)
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        // Opening it for reading and writing does not block, and lets the script read the end of the file.
        let _ = OpenOptions::new().read(true).write(true).open(self.path("hold"));
    }
}

/// Returns `true` if an argument of a process contains this text.
fn is_listed(text: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut arguments = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    arguments.any(|arguments| String::from_utf8_lossy(&arguments).contains(text))
}

#[test]
fn the_address_of_the_opened_browser_works_once() {
    let table = new_table();
    table.write_versions("E", 1);
    let opener = Opener::new();
    let (console, token) = opener.console(&table, &[]);
    assert!(is_listed(&token), "the command ended");
    assert!(token != console.token && !is_listed(&console.token));
    // It is for the address only, and previews of it do not use it up. The printed token remains valid.
    let wrong = "401 | ~ Invalid token. | set-cookie:";
    console.requests(&format!(
        "
        HEAD /?token={token} => 401 | set-cookie:
        GET /?token={token} | Sec-Purpose: prefetch;prerender => {wrong}
        GET /?token={token} | X-Moz: prefetch => {wrong}
        POST /?token={token} | Origin: http://{{address}} | form: csrf=x => 401 | set-cookie:
        GET {{page}} | Authorization: Bearer {token} => 401
        POST /sign-in | Origin: http://{{address}} | form: token={token}&to=/ => {wrong}
        GET /?token={token} => 303 | location: / | set-cookie: {{cookie}}; Path=/; HttpOnly; SameSite=Strict
        GET /?token={token} => {wrong}
        GET /?token={{token}} => 303
        "
    ));
}

#[test]
fn the_token_of_the_environment_is_not_in_the_process_list() {
    const SECRET: &str = "a-token-of-the-environment_0123456789";
    let table = new_table();
    let opener = Opener::new();
    let (console, token) = opener.console(&table, &[("VZERO_CONSOLE_TOKEN", SECRET)]);
    assert_eq!(console.token, SECRET);
    assert!(token != SECRET && !is_listed(SECRET));
    let help = table.run("console --help").stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "read this option in the process list: set `VZERO_CONSOLE_TOKEN` instead";
    assert!(help.contains(said), "{help}");
}

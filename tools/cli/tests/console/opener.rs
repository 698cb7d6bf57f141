//! The address that the command of the web browser receives as its argument, which other users can read in the process list.

use std::{
    fs::{self, OpenOptions, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Command,
};

use tempfile::TempDir;
use testkit::{table::Table, wait::eventually};

use crate::{html::Page, http, new_table, served::Console};

/// A folder with an `xdg-open` that stores its arguments, and runs until this value is dropped.
struct Opener(TempDir);

impl Opener {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let opener = Self(folder);
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

    /// Starts a console that opens the browser, and returns it with the arguments of the command.
    fn console(&self, table: &Table, environment: &[(&str, &str)]) -> (Console, Vec<String>) {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.0.path().display());
        let environment = [environment, &[("PATH", path.as_str())]].concat();
        let console = Console::opening(table, &environment);
        let arguments = table.runtime.block_on(eventually("call of xdg-open", async || {
            fs::read_to_string(self.path("arguments")).ok()
        }));
        (console, arguments.lines().map(str::to_owned).collect())
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        // Opening it for reading and writing does not block, and lets the script read the end of the file.
        let _ = OpenOptions::new().read(true).write(true).open(self.path("hold"));
    }
}

/// Returns the arguments of all processes that can be read.
fn process_list() -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let arguments = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    arguments
        .map(|text| String::from_utf8_lossy(&text).replace('\0', " "))
        .collect()
}

const PAGE: &str = "/entity?id=E";

#[test]
fn the_address_of_the_opened_browser_works_once() {
    let table = new_table();
    table.write_versions("E", 1);
    let opener = Opener::new();
    let (console, arguments) = opener.console(&table, &[]);
    let [url] = &arguments[..] else { panic!("{arguments:?}") };
    let path = url.strip_prefix(&format!("http://{}", console.address)).unwrap();
    let token = path.strip_prefix("/?token=").unwrap();
    assert!(token.len() >= 32 && token != console.token && !url.contains(&console.token));
    let listed = process_list();
    assert!(
        listed.iter().any(|arguments| arguments.contains(url.as_str())),
        "the command ended"
    );
    assert!(!listed.iter().any(|arguments| arguments.contains(&console.token)));

    // It is for the address only, and previews of it do not use it up.
    let host = ("Host", console.address.as_str());
    let origin = format!("http://{}", console.address);
    let bearer = format!("Bearer {token}");
    for (method, path, header) in [
        ("HEAD", path, ("Accept", "*/*")),
        ("GET", path, ("Sec-Purpose", "prefetch;prerender")),
        ("GET", path, ("Purpose", "prefetch")),
        ("GET", path, ("X-Moz", "prefetch")),
        ("POST", path, ("Origin", origin.as_str())),
        ("GET", PAGE, ("Authorization", bearer.as_str())),
    ] {
        let response = console.raw(method, path, &[host, header], "");
        assert!(
            [401, 403].contains(&response.status),
            "{method} {header:?}: {response:?}"
        );
        assert_eq!(response.header("set-cookie"), None, "{method} {header:?}");
    }
    let form = http::form(&[("token", token), ("to", "/")]);
    assert_eq!(
        console
            .raw("POST", "/sign-in", &[host, ("Origin", &origin)], &form)
            .status,
        401
    );

    // Of several requests at the same time, one starts a session.
    let responses: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| console.raw("GET", path, &[host], "")))
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let (first, rejected): (Vec<_>, Vec<_>) = responses.into_iter().partition(|response| response.status == 303);
    assert_eq!((first.len(), rejected.len()), (1, 15));
    assert_eq!(first[0].header("location"), Some("/"));
    let cookie = first[0].header("set-cookie").unwrap().split(';').next().unwrap();
    assert!(
        console
            .raw("GET", PAGE, &[host, ("Cookie", cookie)], "")
            .body
            .contains("Latest")
    );
    let wrong = console.raw("GET", "/?token=wrong", &[host], "");
    for response in rejected.iter().chain([&console.raw("GET", path, &[host], "")]) {
        assert_eq!((response.status, &response.body), (wrong.status, &wrong.body));
        assert!(response.status == 401 && Page::parse(&response.body).text.contains("Invalid token."));
        assert_eq!(response.header("set-cookie"), None);
    }
    // The printed token remains valid.
    let printed = console.raw("GET", &format!("/?token={}", console.token), &[host], "");
    assert_eq!(printed.status, 303);
    for arguments in process_list() {
        for token in arguments.split("token=").skip(1) {
            let token = token.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap();
            let response = console.raw("GET", &format!("/?token={token}"), &[host], "");
            assert_eq!(response.status, 401, "{arguments}");
        }
    }
}

#[test]
fn the_token_of_the_environment_is_not_in_the_process_list() {
    const SECRET: &str = "a-token-of-the-environment_0123456789";
    let table = new_table();
    let opener = Opener::new();
    let (console, arguments) = opener.console(&table, &[("VZERO_CONSOLE_TOKEN", SECRET)]);
    assert_eq!(console.token, SECRET);
    assert!(
        arguments[0].contains("/?token=") && !arguments[0].contains(SECRET),
        "{arguments:?}"
    );
    assert!(!process_list().iter().any(|arguments| arguments.contains(SECRET)));
    let help = table.run("console --help").stdout.replace('\n', " ");
    let help: Vec<_> = help.split_whitespace().collect();
    let help = help.join(" ");
    assert!(
        help.contains("read this option in the process list: set `VZERO_CONSOLE_TOKEN` instead"),
        "{help}"
    );
}

//! A browser session, and the actions of a user.

use std::{
    cell::{Cell, RefCell},
    fmt::Debug,
    io::Write as _,
    path::PathBuf,
    time::Duration,
};

use axum::http::Method;
use fantoccini::{
    Client, ClientBuilder, Locator,
    actions::{InputSource as _, KeyAction, KeyActions},
    elements::Element,
    error::CmdError,
    key::Key,
    wd::WebDriverCompatibleCommand,
};
use history_console::Console;
use hyper_util::client::legacy::connect::HttpConnector;
use operations::revision::{self, ChangeOptions};
use serde_json::{Value, json};
use shared::{
    clock,
    config::WriteMode,
    domain::{request_id::RequestId, version::Version},
};
use testkit::{
    attached::Orders,
    database,
    pages::root,
    script::{Script, Subject},
    table::{self, Table},
    wait::eventually,
};
use url::Url;
use writer_fn::update::Update;

use crate::{checks, console};

const TOKEN: &str = "the-token-of-the-tests_0123456789";
const TIMEOUT: Duration = Duration::from_secs(30);
/// Window size of a desktop.
pub(crate) const DESK: (u32, u32) = (1200, 800);
const KEYS: [(&str, Key); 5] = [
    ("Enter", Key::Enter),
    ("Escape", Key::Escape),
    ("Left", Key::Left),
    ("Right", Key::Right),
    ("Tab", Key::Tab),
];

/// A table, its consoles, and a browser.
///
/// | line | a user |
/// |---|---|
/// | `console reading`, `console writing` | uses the read-only console, or the one that allows changes |
/// | `console attached` | uses the console of a table that other programs write, which allows changes |
/// | `enter reading` | the same, and signs in with its URL |
/// | `go /path`, `back` | opens a page |
/// | `shows /path NAME text` | opens a page that contains a text, checks it as `page` does, and reaches its controls |
/// | `looks /path NAME text` | the same, without the controls |
/// | `click CSS`, `choose Name` | clicks an element; a link, button or summary with this text |
/// | `fill CSS = text`, `type text`, `press Key`, `send CSS = Key` | uses the keyboard |
/// | `size phone`, `size desk`, `zone Asia/Tokyo` | has another window, or lives in another time zone |
///
/// | line | waits for, or checks |
/// |---|---|
/// | `at /path` | the address |
/// | `title text`, `reads text`, `!reads text` | the title, and the text of the page |
/// | `see CSS`, `in CSS = text` | an element, and its text |
/// | `js script => json` | the result of a script |
/// | `page NAME`, `controls` | see [`checks`] |
/// | `expect part` | none: allows lines with this part in the browser's console |
///
/// The actions `@order NO {…}` and `@deliver` are those of the orders' writer and of stream-fn. The actions `@before MINUTES {…}` and `@restored_before MINUTES VERSION {…}` are the writer's, so many minutes ago.
pub(crate) struct Browser {
    table: Table,
    orders: Orders,
    /// Read-only, with changes, and of the orders, with changes.
    consoles: [Console; 3],
    /// Index of the console in use.
    console: Cell<usize>,
    client: Client,
    /// Parts of expected lines of the browser's console.
    expected: RefCell<Vec<String>>,
}

/// A command outside of the `WebDriver` standard.
#[derive(Debug)]
struct Command {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Command {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

impl Subject for Browser {
    fn create(vzero: &'static str, _: Option<u8>, _: &Value) -> Self {
        let (table, orders) = (Table::new(vzero), Orders::new(vzero));
        let [reading, writing] = [false, true].map(|writes| console::serve(&table, &table.store, Some(TOKEN), writes));
        let attached = console::serve(&orders, &orders.store(), Some(TOKEN), true);
        let browser = Self {
            consoles: [reading, writing, attached],
            orders,
            console: Cell::new(0),
            client: table.block_on(open()),
            expected: RefCell::default(),
            table,
        };
        browser.table.block_on(async {
            browser.size(DESK, false).await;
            // Animations are off, so that elements do not move between lookup and click.
            browser.prefer("light").await;
        });
        browser
    }

    fn table(&self) -> &Table {
        &self.table
    }

    fn act(&self, script: &Script<'_, Self>, kind: &str, words: &[&str]) -> Option<Value> {
        let at = |minutes: &str| {
            let second = clock::since_epoch().as_secs() - minutes.parse::<u64>().unwrap() * 60;
            database::at_second(&self.table.store, second)
        };
        let json = |text: &str| serde_json::from_str(text).unwrap();
        match (kind, words) {
            ("before", [minutes, update @ ..]) => {
                let store = at(minutes);
                self.table.block_on(table::write(&store, json(&update.join(" "))));
            }
            ("restored_before", [minutes, version, update]) => {
                let Update { entity, changes, .. } = database::update(json(update));
                let (version, request) = (Version::new(version.parse().unwrap()), RequestId::new("undo"));
                let (change, mode) = (
                    ChangeOptions {
                        changes,
                        ..Default::default()
                    },
                    database::mode(WriteMode::Inline),
                );
                let store = at(minutes);
                let restored = revision::restore(&store, &entity, version.unwrap(), request.unwrap(), change, mode);
                self.table.block_on(restored).unwrap();
            }
            ("order", [no, ..]) => {
                self.orders.put(no.parse().unwrap(), &json(&words[1..].join(" ")));
                self.orders.deliver_all();
            }
            ("deliver", _) => self.orders.deliver_all(),
            _ => return script.act_on_table(kind, words),
        }
        Some(Value::Null)
    }

    fn has_checked(&self, line: &str) -> bool {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let is_step = !verb.starts_with('@');
        if is_step {
            self.table.block_on(self.step(verb, rest));
        }
        is_step
    }
}

async fn open() -> Client {
    let mut options = json!({
        // CI runs as root, without graphics and with little shared memory.
        "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-US",
                 "--no-first-run", "--disable-extensions", "--hide-scrollbars",
                 format!("--window-size={},{}", DESK.0, DESK.1)],
    });
    if let Some(binary) = env("VZERO_TEST_BROWSER") {
        options["binary"] = json!(binary);
    }
    let capabilities = [
        ("browserName", json!("chrome")),
        ("goog:chromeOptions", options),
        ("goog:loggingPrefs", json!({"browser": "ALL"})),
    ];
    let capabilities = capabilities.map(|(name, value)| (name.to_owned(), value));
    let mut builder = ClientBuilder::new(HttpConnector::new());
    builder.capabilities(capabilities.into_iter().collect());
    builder.connect(&required_env("VZERO_TEST_WEBDRIVER")).await.unwrap()
}

impl Browser {
    async fn step(&self, verb: &str, rest: &str) {
        let pair = || rest.split_once(" = ").unwrap();
        match verb {
            "console" => self.select(rest),
            "enter" => {
                self.select(rest);
                self.go(&format!("/?token={TOKEN}")).await;
                self.is_at("/").await;
            }
            "go" => self.go(rest).await,
            "back" => self.client.back().await.unwrap(),
            "shows" | "looks" => {
                let [path, name, text] = rest.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
                self.go(path).await;
                self.reads("body", text).await;
                checks::page(self, name).await;
                if verb == "shows" {
                    checks::all_controls_are_reached(self).await;
                }
            }
            "click" => self.click(Locator::Css(rest)).await,
            "choose" => {
                let names = "self::a or self::button or self::summary";
                let named = format!("//main//*[{names}][normalize-space() = \"{rest}\"]");
                self.click(Locator::XPath(&named)).await;
            }
            "fill" => {
                let (css, text) = pair();
                let field = self.see(Locator::Css(css)).await;
                field.clear().await.unwrap();
                field.send_keys(&text.replace("{token}", TOKEN)).await.unwrap();
            }
            "type" => {
                for letter in rest.chars() {
                    self.press(letter).await;
                }
            }
            "press" => self.press(key(rest)).await,
            "send" => {
                let (css, name) = pair();
                let field = self.see(Locator::Css(css)).await;
                field.send_keys(&key(name).to_string()).await.unwrap();
            }
            "size" if rest == "phone" => self.size(checks::PHONE, true).await,
            "size" => self.size(DESK, false).await,
            "zone" => {
                let zone = json!({"timezoneId": rest});
                self.tool("Emulation.setTimezoneOverride", zone).await;
            }
            "at" => self.is_at(rest).await,
            "title" => assert_eq!(self.client.title().await.unwrap(), rest),
            "reads" => self.reads("body", rest).await,
            "!reads" => assert!(
                !self.text("body").await.contains(rest),
                "{rest:?} at {}",
                self.url().await
            ),
            "see" => drop(self.see(Locator::Css(rest)).await),
            "in" => self.reads(pair().0, pair().1).await,
            "js" => {
                let (script, expected) = rest.rsplit_once(" => ").unwrap();
                let expected: Value = serde_json::from_str(expected).unwrap();
                assert_eq!(self.script(script, vec![]).await, expected, "{script}");
            }
            "page" => checks::page(self, rest).await,
            "controls" => checks::all_controls_are_reached(self).await,
            "expect" => self.expected.borrow_mut().push(rest.to_owned()),
            _ => panic!("{verb} is no step"),
        }
    }

    pub(crate) fn close(self) {
        let _ = self.table.runtime.block_on(self.client.close());
    }

    fn select(&self, console: &str) {
        let names = ["reading", "writing", "attached"];
        self.console
            .set(names.iter().position(|name| *name == console).unwrap());
    }

    async fn go(&self, path: &str) {
        let address = self.consoles[self.console.get()].address();
        self.client.goto(&format!("http://{address}{path}")).await.unwrap();
    }

    pub(crate) async fn url(&self) -> Url {
        self.client.current_url().await.unwrap()
    }

    async fn is_at(&self, path: &str) {
        let at = async || {
            let url = self.url().await;
            let query = url.query().map_or(String::new(), |query| format!("?{query}"));
            let loaded = self.script("return document.readyState", vec![]).await == "complete";
            (loaded && format!("{}{query}", url.path()) == path).then_some(())
        };
        eventually(&format!("page {path}"), at).await;
    }

    /// Waits for an element.
    async fn see(&self, place: Locator<'_>) -> Element {
        match self.client.wait().at_most(TIMEOUT).for_element(place).await {
            Ok(element) => element,
            Err(error) => panic!("no {place:?} at {}: {error}", self.url().await),
        }
    }

    async fn click(&self, place: Locator<'_>) {
        self.see(place).await.click().await.unwrap();
    }

    /// Returns the text of the first matching element. It is empty if no element matches.
    async fn text(&self, css: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText ?? ''";
        let text = self.script(script, vec![json!(css)]).await;
        text.as_str().unwrap().to_owned()
    }

    /// Waits until an element contains a text.
    async fn reads(&self, css: &str, text: &str) {
        let read = async || self.text(css).await.contains(text).then_some(());
        eventually(&format!("{text:?} in {css} at {}", self.url().await), read).await;
    }

    pub(crate) async fn press(&self, value: impl Into<char>) {
        let value = value.into();
        let actions = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value })
            .then(KeyAction::Up { value });
        self.client.perform_actions(actions).await.unwrap();
    }

    pub(crate) async fn script(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute(script, arguments).await.unwrap()
    }

    /// Runs a script that passes its result to its last argument, a callback.
    pub(crate) async fn async_script(&self, script: &str) -> Value {
        self.client.execute_async(script, vec![]).await.unwrap()
    }

    async fn tool(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        let path = "goog/cdp/execute";
        let _: Value = self.client.issue_cmd(Command { path, body }).await.unwrap();
    }

    pub(crate) async fn size(&self, (width, height): (u32, u32), is_phone: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.tool("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Selects the light or dark color scheme, and reduced motion.
    pub(crate) async fn prefer(&self, scheme: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.tool("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
    }

    pub(crate) async fn keep(&self, name: &str) {
        let Ok(image) = self.client.screenshot().await else {
            return;
        };
        std::fs::create_dir_all(screenshots()).unwrap();
        std::fs::write(screenshots().join(format!("{name}.png")), image).unwrap();
    }

    /// Saves a screenshot and prints the text of the page of a failed scenario.
    pub(crate) fn report_failure(&self, name: &str) {
        self.table.runtime.block_on(async {
            self.keep(&format!("failed-{name}")).await;
            let url = self.client.current_url().await;
            let text = self.client.execute("return document.body.innerText", vec![]).await;
            let text = text.ok().as_ref().and_then(Value::as_str).map(str::to_owned);
            let _ = writeln!(std::io::stderr(), "at {url:?}: {}", text.unwrap_or_default());
        });
    }

    /// Checks that the browser's console has no unexpected errors, such as violations of the content security policy.
    pub(crate) fn has_no_errors(&self) {
        let body = json!({"type": "browser"});
        let log = self.client.issue_cmd(Command { path: "se/log", body });
        let log: Result<Value, CmdError> = self.table.runtime.block_on(log);
        for entry in log.unwrap().as_array().unwrap() {
            let line = entry["message"].as_str().unwrap();
            let is_expected = self.expected.borrow().iter().any(|part| line.contains(part.as_str()));
            let is_information = entry["level"] == "DEBUG" || entry["level"] == "INFO";
            assert!(is_information || is_expected, "the browser says: {entry}");
        }
    }
}

/// Returns a key by its name, or by its character.
fn key(name: &str) -> char {
    let known = KEYS.iter().find(|(known, _)| *known == name);
    known.map_or_else(|| name.parse().unwrap(), |(_, key)| (*key).into())
}

pub(crate) fn screenshots() -> PathBuf {
    root().join("target/ci/screenshots")
}

/// Returns an environment variable that tools/cli/tests/with-browser sets.
#[allow(clippy::disallowed_methods, reason = "the environment names the browser")]
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(crate) fn required_env(name: &str) -> String {
    env(name).unwrap_or_else(|| panic!("{name} is not set: tools/cli/tests/with-browser sets it"))
}

//! A browser session on the consoles of two tables.

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
    wd::WebDriverCompatibleCommand,
};
use history_console::Console;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use testkit::{attached::Orders, pages::root, table::Table, wait::eventually};
use url::Url;

use crate::{console, sealed::Sealing};

pub(crate) const TOKEN: &str = "the-token-of-the-tests_0123456789";
const TIMEOUT: Duration = Duration::from_secs(30);
/// Window size of a desktop.
pub(crate) const DESK: (u32, u32) = (1200, 800);

/// A table, its consoles, and a browser.
pub(crate) struct Browser {
    pub(crate) table: Table,
    pub(crate) orders: Orders,
    /// Read-only, with changes, and of the orders, with changes.
    consoles: [Console; 3],
    /// Index of the console in use.
    console: Cell<usize>,
    pub(crate) client: Client,
    /// What seals versions, from the first one that is to be sealed.
    pub(crate) sealing: RefCell<Option<Sealing>>,
    /// Parts of expected lines of the browser's console.
    pub(crate) expected: RefCell<Vec<String>>,
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
    pub(crate) fn new(vzero: &'static str) -> Self {
        let (table, orders) = (Table::new(vzero), Orders::new(vzero));
        let [reading, writing] = [false, true].map(|writes| console::serve(&table, &table.store, Some(TOKEN), writes));
        let attached = console::serve(&orders, &orders.store(), Some(TOKEN), true);
        let browser = Self {
            consoles: [reading, writing, attached],
            orders,
            console: Cell::new(0),
            client: table.block_on(open()),
            sealing: RefCell::default(),
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

    pub(crate) fn close(self) {
        let _ = self.table.runtime.block_on(self.client.close());
    }

    pub(crate) fn select(&self, console: &str) {
        let names = ["reading", "writing", "attached"];
        self.console
            .set(names.iter().position(|name| *name == console).unwrap());
    }

    pub(crate) async fn go(&self, path: &str) {
        let address = self.consoles[self.console.get()].address();
        self.client.goto(&format!("http://{address}{path}")).await.unwrap();
    }

    pub(crate) async fn url(&self) -> Url {
        self.client.current_url().await.unwrap()
    }

    pub(crate) async fn is_at(&self, path: &str) {
        let at = async || {
            let url = self.url().await;
            let query = url.query().map_or(String::new(), |query| format!("?{query}"));
            let loaded = self.script("return document.readyState", vec![]).await == "complete";
            (loaded && format!("{}{query}", url.path()) == path).then_some(())
        };
        eventually(&format!("page {path}"), at).await;
    }

    /// Waits for an element.
    pub(crate) async fn see(&self, place: Locator<'_>) -> Element {
        match self.client.wait().at_most(TIMEOUT).for_element(place).await {
            Ok(element) => element,
            Err(error) => panic!("no {place:?} at {}: {error}", self.url().await),
        }
    }

    /// Clicks an element. The page can be replaced between the lookup and the click, then both are repeated.
    pub(crate) async fn click(&self, place: Locator<'_>) {
        let clicked = async || match self.see(place).await.click().await {
            Ok(()) => Some(()),
            Err(error) if error.is_stale_element_reference() => None,
            Err(error) => panic!("{place:?} is not clicked: {error}"),
        };
        eventually(&format!("a click on {place:?}"), clicked).await;
    }

    /// Returns the text of the first matching element. It is empty if no element matches.
    pub(crate) async fn text(&self, css: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText ?? ''";
        let text = self.script(script, vec![json!(css)]).await;
        text.as_str().unwrap().to_owned()
    }

    /// Waits until an element contains a text.
    pub(crate) async fn reads(&self, css: &str, text: &str) {
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

    pub(crate) async fn tool(&self, command: &str, parameters: Value) {
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

//! A browser session, and the actions of a user.

use std::{fmt::Debug, path::PathBuf, sync::Mutex, time::Duration};

use axum::http::Method;
use fantoccini::{
    Client, ClientBuilder, Locator,
    actions::{InputSource as _, KeyAction, KeyActions},
    elements::Element,
    error::CmdError,
    wd::WebDriverCompatibleCommand,
};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::Url;

use testkit::{pages::root, wait::eventually};

use crate::TOKEN;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Window size of a desktop.
pub(crate) const DESK: (u32, u32) = (1200, 800);

pub(crate) struct Browser {
    client: Client,
    /// Parts of expected lines of the browser's console.
    expected: Mutex<Vec<String>>,
}

pub(crate) fn screenshots() -> PathBuf {
    root().join("target/ci/screenshots")
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

impl Browser {
    pub(crate) async fn open() -> Self {
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
        let capabilities = capabilities
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect();
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&required_env("VZERO_TEST_WEBDRIVER"))
            .await
            .unwrap();
        let browser = Self {
            client,
            expected: Mutex::default(),
        };
        browser.size(DESK, false).await;
        // Animations are off, so that elements do not move between lookup and click.
        browser.prefer("light").await;
        browser
    }

    pub(crate) async fn close(self) {
        let _ = self.client.close().await;
    }

    /// Signs in with the URL of the console, and waits for the first page.
    pub(crate) async fn enter(&self, console: &str) {
        self.go(console, &format!("/?token={TOKEN}")).await;
        self.is_at("/").await;
    }

    pub(crate) async fn go(&self, console: &str, path: &str) {
        self.client.goto(&format!("{console}{path}")).await.unwrap();
    }

    pub(crate) async fn back(&self) {
        self.client.back().await.unwrap();
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

    pub(crate) async fn title(&self) -> String {
        self.client.title().await.unwrap()
    }

    /// Waits for an element.
    pub(crate) async fn see(&self, css: &str) -> Element {
        self.at(Locator::Css(css)).await
    }

    async fn at(&self, place: Locator<'_>) -> Element {
        match self.client.wait().at_most(TIMEOUT).for_element(place).await {
            Ok(element) => element,
            Err(error) => panic!("no {place:?} at {}: {error}", self.url().await),
        }
    }

    pub(crate) async fn texts(&self, css: &str) -> Vec<String> {
        let script = "return [...document.querySelectorAll(arguments[0])].map(found => found.innerText.trim())";
        let texts = self.script(script, vec![json!(css)]).await;
        serde_json::from_value(texts).unwrap()
    }

    /// Waits until the page contains a text.
    pub(crate) async fn reads(&self, text: &str) {
        let read = async || {
            let page = self.script("return document.body.innerText", vec![]).await;
            page.as_str().unwrap().contains(text).then_some(())
        };
        eventually(&format!("{text:?} on the page {}", self.url().await), read).await;
    }

    pub(crate) async fn does_not_read(&self, text: &str) {
        let page = self.script("return document.body.innerText", vec![]).await;
        assert!(
            !page.as_str().unwrap().contains(text),
            "{text:?} at {}: {page}",
            self.url().await
        );
    }

    pub(crate) async fn click(&self, css: &str) {
        self.see(css).await.click().await.unwrap();
    }

    /// Clicks the link, button or summary with this text.
    pub(crate) async fn choose(&self, name: &str) {
        let named = format!("//main//*[self::a or self::button or self::summary][normalize-space() = \"{name}\"]");
        self.at(Locator::XPath(&named)).await.click().await.unwrap();
    }

    /// Replaces the content of a field.
    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let field = self.see(css).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    pub(crate) async fn press(&self, key: impl Into<char>) {
        let value = key.into();
        let actions = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value })
            .then(KeyAction::Up { value });
        self.client.perform_actions(actions).await.unwrap();
    }

    pub(crate) async fn script(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute(script, arguments).await.unwrap()
    }

    /// Runs a script that passes its result to its last argument, a callback.
    pub(crate) async fn async_script(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute_async(script, arguments).await.unwrap()
    }

    pub(crate) async fn tool(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        let path = "goog/cdp/execute";
        self.client.issue_cmd(Command { path, body }).await.unwrap()
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
        let folder = screenshots();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), image).unwrap();
    }

    /// Saves a screenshot and prints the text of the page of a failed scenario.
    pub(crate) async fn report_failure(&self, path: &str) {
        self.keep(&format!("failed-{}", path.replace("::", "-"))).await;
        let url = self.client.current_url().await;
        let text = self.client.execute("return document.body.innerText", vec![]).await;
        crate::say(&format!(
            "at {url:?}: {}",
            text.ok().as_ref().and_then(Value::as_str).unwrap_or_default()
        ));
    }

    /// Allows lines with this part in the browser's console.
    pub(crate) fn expect(&self, part: &str) {
        self.expected.lock().unwrap().push(part.to_owned());
    }

    /// Checks that the browser's console has no unexpected errors, such as violations of the content security policy.
    pub(crate) async fn has_no_errors(&self) {
        let body = json!({"type": "browser"});
        let log: Result<Value, CmdError> = self.client.issue_cmd(Command { path: "se/log", body }).await;
        let expected = self.expected.lock().unwrap().clone();
        for entry in log.unwrap().as_array().unwrap() {
            let line = entry["message"].as_str().unwrap();
            let is_expected = expected.iter().any(|part| line.contains(part.as_str()));
            let is_information = entry["level"] == "DEBUG" || entry["level"] == "INFO";
            assert!(is_information || is_expected, "the browser says: {entry}");
        }
    }
}

/// Returns an environment variable that tools/cli/tests/with-browser sets.
#[allow(clippy::disallowed_methods, reason = "the environment names the browser")]
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(crate) fn required_env(name: &str) -> String {
    env(name).unwrap_or_else(|| panic!("{name} is not set: tools/cli/tests/with-browser sets it"))
}

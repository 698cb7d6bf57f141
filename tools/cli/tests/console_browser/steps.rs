//! The lines of a scenario: what a user does, and what the page shows.

use fantoccini::{Locator, key::Key};
use operations::revision::{self, ChangeOptions};
use serde_json::{Value, json};
use shared::{
    clock,
    config::WriteMode,
    domain::{request_id::RequestId, version::Version},
};
use testkit::{
    database,
    script::{Script, Subject},
    table::{self, Table},
};
use writer_fn::update::Update;

use crate::{
    browser::{Browser, DESK, TOKEN},
    checks,
    sealed::Sealing,
};

const KEYS: [(&str, Key); 5] = [
    ("Enter", Key::Enter),
    ("Escape", Key::Escape),
    ("Left", Key::Left),
    ("Right", Key::Right),
    ("Tab", Key::Tab),
];

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
/// | `proofs` | that the page verifies proofs as `vzero verify` does |
///
/// The action `@sealed {…}` writes and seals a version. The actions `@order NO {…}` and `@deliver` belong to the orders' writer and of stream-fn. The actions `@before MINUTES {…}` and `@restored_before MINUTES VERSION {…}` are the writer's, so many minutes ago.
impl Subject for Browser {
    fn create(vzero: &'static str, _: Option<u8>, _: &Value) -> Self {
        Self::new(vzero)
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
            ("sealed", update) => {
                let mut sealing = self.sealing.borrow_mut();
                let sealing = sealing.get_or_insert_with(|| Sealing::of(&self.table));
                sealing.write(&self.table, json(&update.join(" ")));
                sealing.seal(&self.table);
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
            "proofs" => self.verifies_proofs().await,
            "page" => checks::page(self, rest).await,
            "controls" => checks::all_controls_are_reached(self).await,
            "expect" => self.expected.borrow_mut().push(rest.to_owned()),
            _ => panic!("{verb} is no step"),
        }
    }
}

/// Returns a key by its name, or by its character.
fn key(name: &str) -> char {
    let known = KEYS.iter().find(|(known, _)| *known == name);
    known.map_or_else(|| name.parse().unwrap(), |(_, key)| (*key).into())
}

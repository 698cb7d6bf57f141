//! Text from the table, failure documents and addresses is escaped on every page.

use serde_json::{Value, json};
use testkit::table::Table;

use crate::{changes::run, html::Page, http::encoded, new_table, served::Console};

/// Marker that each hostile text contains.
const MARK: &str = "zq";
pub(crate) const HOSTILE: [&str; 17] = [
    "<script>zq()</script>",
    "\"><img src=x onerror=zq()>",
    "'><svg onload=zq()>",
    "\" onfocus=\"zq()\" autofocus=\"",
    "' onfocus='zq()' autofocus='",
    " onfocus=zq() autofocus ",
    "</title></textarea></style></script><script>zq()</script>",
    "--><script>zq()</script><!--",
    "]]><script>zq()</script><![CDATA[",
    "javascript:zq()",
    "//zq.example",
    "&lt;script&gt;zq&#x3c;/script>&amp;&quot;",
    "\\u003cscript\\u003ezq{{zq}}${zq}<%=zq%>",
    "a\u{202e}zq\u{2066}\u{2069}\u{200b}\u{feff}b",
    "a\u{1}zq\u{7}\u{1b}[31m\u{7f}\u{9b}b",
    "a\u{85}\u{ad}\u{34f}\u{61c}\u{115f}zq\u{17b4}\u{180e}\u{2028}\u{206f}\u{3164}\u{ffa0}\u{fff9}\u{e0001}\u{e0041}b",
    "a\r\nSet-Cookie: zq=1\r\n\r\n<script>zq()</script>",
];

/// Returns attributes of each type that contain the text.
fn attributes(text: &str) -> Value {
    json!({
        format!("N{text}"): {"S": text},
        "S": {"S": text},
        "B": {"B": "PHNjcmlwdD56cSgpPC9zY3JpcHQ+"},
        "SS": {"SS": [text, format!("{text}2")]},
        "NS": {"NS": ["1", "2.50"]},
        "BS": {"BS": ["PHNjcmlwdD4=", "PHpxPg=="]},
        "L": {"L": [{"S": text}, {"L": [{"S": text}]}, {"BOOL": true}, {"NULL": true}]},
        "M": {"M": {text: {"S": text}, "n": {"M": {text: {"L": [{"M": {text: {"N": "1"}}}]}}}}},
        "Actor": {"S": text},
        "Reason": {"M": {text: {"S": text}}},
        "RequestId": {"S": text},
        "Sender": {"S": text},
        "RecordedAt": {"S": "2026-11-22T06:24:48.123456003Z"},
        "RecordedBy": {"S": text},
        "RestoredFrom": {"N": "1"},
        "Time": {"S": "2020-11-01T20:04:00"},
    })
}

/// Returns attributes that differ from [`attributes`] in each way that the comparison shows.
fn nested(text: &str) -> Value {
    let moved = json!([{"NULL": true}, {"S": format!("{text} {}", "long ".repeat(20))}, {"L": [{"N": "1"}, {"S": text}]}, {"BOOL": true}]);
    json!({
        "S": {"S": format!("{text}3\n{}{text}\n", "equal\n".repeat(9))},
        "SS": {"SS": [text, format!("{text}3")]},
        "L": {"L": moved},
        "M": {"M": {text: {"S": json!({text: [text]}).to_string()}, "n": {"M": {text: {"L": [{"M": {text: {"S": text}}}]}}}}},
        "Actor": {"S": text},
    })
}

/// Puts an entity with history, a gap and metadata, all with the text.
fn put(table: &Table, text: &str) {
    let deleted = json!({"Latest": {"N": "4"}, "S": {"S": format!("{text}4")}, "Deleted": {"BOOL": true}});
    for (key, more) in [
        ("v0", deleted.clone()),
        ("v4", deleted),
        ("v3", nested(text)),
        ("v2", json!({"S": {"S": format!("{text}2")}, "Extra": {"S": text}})),
        ("v1", json!({})),
    ] {
        let mut item = attributes(text);
        let members = item.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        members.extend([
            ("PK".to_owned(), json!({"S": text})),
            ("SK".to_owned(), json!({"S": key})),
        ]);
        table.put(item);
    }
    table.put(json!({"PK": {"S": text}, "SK": {"S": "Metadata"}, text: {"S": text}, "Tags": {"SS": [text]}}));
}

fn is_invisible(c: char) -> bool {
    shared::printable::is_hidden(c) && !['\n', '\t'].contains(&c)
}

/// Checks that no part of a text became a tag, an attribute, an address or an invisible character.
pub(crate) fn is_inert(path: &str, body: &str) -> Page {
    let page = Page::parse(body);
    for tag in &page.tags {
        let is_own = match tag.name.as_str() {
            "img" | "iframe" | "object" | "embed" | "base" | "style" | "math" => false,
            "script" => {
                let own = ["/assets/console.js", "/assets/verify.js"].map(Some);
                tag.attributes.len() == 2 && own.contains(&tag.attribute("src"))
            }
            "svg" => tag.attribute("class") == Some("timeline"),
            name => !name.contains(MARK),
        };
        assert!(is_own, "{path}: {tag:?}");
        for (name, value) in &tag.attributes {
            let is_inert = match name.as_str() {
                "style" | "srcdoc" | "formaction" | "autofocus" | "http-equiv" | "ping" => false,
                "aria-label" | "title" | "alt" | "placeholder" | "class" => !value.contains(is_invisible),
                "href" | "src" | "action" => {
                    let is_local = value.starts_with('#') || value.starts_with('/') && !value.starts_with("//");
                    is_local && !value.contains('\\')
                }
                name => !name.starts_with("on") && !name.contains(MARK),
            };
            assert!(is_inert, "{path}: {tag:?}");
        }
    }
    assert!(
        [1, 2].contains(&page.named("script").len()),
        "{path}: the page's own scripts"
    );
    assert_eq!(page.comments, 0, "{path}");
    assert_eq!(page.text.find(is_invisible), None, "{path}: {}", page.text);
    page
}

/// Returns the address of every page, with the id in each parameter.
fn paths(id: &str) -> Vec<String> {
    let paths = "\
        / /?find={} /?find={}&state=deleted /?find=a&state={} /?page={} /?{}={} /{} /entity?id={} /entity?id={}&to=2 \
        /entity?id={}&to={} /entity?id={}&scale={} /entity?id=none{} /entity?{} /version?id={}&version=4 \
        /version?id={}&version=1 /version?id={}&version=3 /version?id={}&version=5 /version?id={}&version={} \
        /version?id={}&version=1&done={} /compare?id={}&from=1&to=2 /compare?id={}&from=2&to=4 \
        /compare?id={}&from=2&to=3 /compare?id={}&from=1&to=3&path={} /compare?id={}&from=1&to=3&path=M.%22{}%22 \
        /compare?id={}&from={}&to={} /blame?id={} /blame?id={}&version=3 /blame?id={}&path={} /blame?id={}&version={} /as-of?id={} /as-of?id={}&at=2021-01-01 \
        /as-of?id={}&at={} /as-of?id={}&at=2027-01-01 /as-of?id={}&effective=2021-01-01 /as-of?id={}&effective={} \
        /as-of?id={}&version=1 /as-of?id={}&version=3 /health /health?audit={} /restore?id={}&version=1 \
        /restore?id={}&version={} /undelete?id={} /changes?actor={}&prefix={}&path={} /changes?since={} \
        /changes/undo?id={}&version=2 /changes/undo?actor={} /changes/undo?plan={} /changes/undo?pick={} /changes?{}=1";
    paths.split(' ').map(|path| path.replace("{}", &encoded(id))).collect()
}

/// Puts a record of each hostile text into quarantine.
fn quarantine(table: &Table, id: &str) {
    for (index, text) in HOSTILE.into_iter().enumerate() {
        let mut image = attributes(text);
        image["PK"] = json!({"S": id});
        image["SK"] = json!({"S": "v0"});
        table.quarantine(id, &(index + 1).to_string(), "Malformed", &image);
    }
}

#[test]
fn no_text_becomes_markup() {
    let table = new_table();
    table.write_versions("first", 1);
    quarantine(&table, HOSTILE[0]);
    for text in HOSTILE {
        put(&table, text);
    }
    for console in [Console::of(&table), Console::writing(&table)] {
        for text in HOSTILE {
            for path in paths(text) {
                let answer = console.get(&path);
                let page = is_inert(&path, &answer.body);
                // The page does display the text.
                let shown = ["/entity?id=", "/version?id=", "/compare?id=", "/blame?id="];
                let is_shown = shown.iter().any(|shown| path.starts_with(shown));
                if is_shown && answer.status == 200 {
                    assert!(page.text.contains(MARK), "{path}: {page:?}");
                }
                assert!(answer.status < 500, "{path}: {answer:?}");
                assert!(answer.header("set-cookie").is_none(), "{path}");
                // Without a token, the sign-in form contains the address.
                let sign_in = console.send("GET", &path, &[], "");
                is_inert(&path, &sign_in.body);
                assert_eq!(sign_in.status, 401, "{path}");
            }
            // The plan of an undo has names and values.
            let undo = format!("/changes/undo?id={}&version=2", encoded(text));
            let (plan, planned) = run(&console, &undo, &[("as_actor", text)]);
            assert_eq!(planned["State"], "Done", "{planned}");
            assert!(is_inert(&plan, &console.get(&plan).body).text.contains(MARK));
        }
        let (changes, found) = run(&console, "/changes", &[]);
        assert!(found["Counts"]["Versions"].as_u64().unwrap() > 60, "{found}");
        for page in ["", "?page=2", "?prefix=a"] {
            let path = format!("{changes}{page}");
            assert!(is_inert(&path, &console.get(&path).body).text.contains(MARK), "{path}");
        }
        let each = console.page(&format!("/entity?id={}", encoded(HOSTILE[0])));
        assert!(each.text.matches("zq()").count() > 10, "{each:?}");
    }
}

#[test]
fn json_contains_the_text() {
    let table = new_table();
    let console = Console::of(&table);
    for text in HOSTILE {
        put(&table, text);
        let answer = console.ask(&format!("/version?id={}&version=1", encoded(text)));
        let json = answer.json();
        assert_eq!((&json["ID"], &json["Attributes"]["S"]), (&json!(text), &json!(text)));
        for name in ["Actor", "Sender", "RequestId"] {
            assert_eq!(json[name], json!(text), "{name}");
        }
        assert_eq!(json["Reason"], json!({text: text}));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
}

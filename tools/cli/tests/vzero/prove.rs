//! `vzero prove`, on versions that seal-fn's own code seals.

use std::{
    ops::{Deref, Range},
    process::Command,
    sync::LazyLock,
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use sealing::{
    sealer::Sealed,
    settings::{LogPlace, Settings},
};
use serde_json::{Value, json};
use shared::{domain::time_index::ALWAYS, dynamodb::Store};
use testkit::{
    attached::Orders,
    command::{Arguments, Run},
    database::{self, add_time_index, put_into},
    endpoint::is_skipped,
    pages::root,
    table::{Table, create_history},
    vzero::Vzero,
};

use crate::time_index::indexed;

/// `true` if this machine can run the verifier in Python.
static PYTHON: LazyLock<bool> = LazyLock::new(|| {
    let output = Command::new("python3").args(["-c", "import cryptography"]).output();
    output.is_ok_and(|output| output.status.success())
});

/// A table of one layout whose versions are sealed, and one of its entities.
pub(crate) struct Log {
    pub(crate) source: Source,
    pub(crate) store: Store,
    /// Key of the entity, as a user writes it.
    pub(crate) key: String,
    pub(crate) settings: Settings,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) enum Source {
    Own(Table),
    Attached(Orders),
}

impl Deref for Log {
    type Target = Vzero;

    fn deref(&self) -> &Vzero {
        match &self.source {
            Source::Own(table) => table,
            Source::Attached(orders) => orders,
        }
    }
}

impl Log {
    pub(crate) fn new(layout: &str) -> Self {
        let (source, store, key) = match layout {
            "attached" => {
                let orders = Orders::with(crate::VZERO, &json!({"ActorAttribute": "by"}));
                orders.block_on(add_time_index(&orders.client, &orders.history));
                let store = orders.store().with_time_index(None);
                orders.block_on(store.store_time_index_since(Some(ALWAYS))).unwrap();
                (Source::Attached(orders), store, Orders::key(1))
            }
            layout => {
                let table = indexed(layout == "own");
                let store = table.store.clone();
                (Source::Own(table), store, "Press#1".to_owned())
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let (tables, endpoint) = match &source {
            Source::Own(table) => ((table.name.clone(), None), &table.endpoint),
            Source::Attached(orders) => ((orders.table.clone(), Some(orders.history.clone())), &orders.endpoint),
        };
        let settings = Settings {
            tables: vec![tables],
            state: endpoint.table("SealState"),
            keys: endpoint.table("SealKeys"),
            origin: "example.com/log".to_owned(),
            place: LogPlace::Folder {
                folder: folder.path().join("log"),
                key: folder.path().join("key"),
            },
        };
        let log = Self {
            source,
            store,
            key,
            settings,
            folder,
        };
        for table in [&log.settings.state, &log.settings.keys] {
            log.block_on(create_history(&log.client, table)).unwrap();
        }
        log
    }

    /// Writes versions whose values have their numbers.
    pub(crate) fn write(&self, numbers: Range<u64>) {
        for number in numbers {
            let (hall, price) = (format!("hall {number}"), format!("{number}.50"));
            match &self.source {
                Source::Own(table) => drop(table.write(json!({
                    "ID": self.key, "Actor": {"name": "amy", "id": 7}, "Lines": [{"X": number}], "State": "on",
                    "Place": {"Street": "secret", "Hall": {"Name": hall, "Empty": {}}}, "Price": number,
                }))),
                Source::Attached(orders) => {
                    let hall = json!({"M": {"Name": {"S": hall}, "Empty": {"M": {}}}});
                    let place = json!({"M": {"Street": {"S": "secret"}, "Hall": hall}});
                    orders.put(1, &json!({
                        "by": {"S": "amy"}, "Lines": {"L": [{"M": {"X": {"N": price}}}]}, "State": {"S": "on"}, "Place": place,
                    }));
                    orders.deliver_to(self.store.clone(), &orders.records());
                }
            }
        }
    }

    pub(crate) fn seal(&self) {
        let sealer = self.settings.sealer(&self.endpoint.config, &self.client);
        let sealer = self.block_on(sealer).unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        self.block_on(sealer.run(deadline, &mut Sealed::default())).unwrap();
    }

    fn prove_with(&self, options: &str) -> Run {
        let mut words = vec!["prove".to_owned(), self.key.clone()];
        words.extend(options.words());
        self.run(&words)
    }

    /// Makes a proof, and returns it with what `vzero verify` prints about it.
    pub(crate) fn prove(&self, options: &str) -> (String, Value) {
        let run = self.prove_with(options);
        assert_eq!(run.code, 0, "{options}: {}", run.stderr);
        let verified = self.verify(options, &run.stdout);
        (run.stdout, verified)
    }

    /// Verifies the text of a proof, and returns what `vzero verify` prints about it.
    pub(crate) fn verify(&self, options: &str, text: &str) -> Value {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let [proof, vkey, folder] = ["proof.json", "log/vkey", "log"].map(path);
        std::fs::write(&proof, text).unwrap();
        if *PYTHON {
            let verifier = root().join("tools/seal/verify.py");
            let output = Command::new("python3")
                .arg(verifier)
                .args([&proof, "--vkey", &vkey])
                .output()
                .unwrap();
            assert!(output.status.success(), "{options}: {output:?}");
        }
        let arguments = format!("verify {proof} --vkey {vkey} --log {folder} --output json");
        let verified = Run::alone(crate::VZERO, &[], &arguments);
        assert_eq!(verified.code, 0, "{options}: {}", verified.stderr);
        verified.json()
    }

    pub(crate) fn expect(&self, options: &str, code: i32, text: &str) {
        let run = self.prove_with(options);
        assert!(run.code == code && run.stderr.contains(text), "{options}: {run:?}");
        assert!(run.stdout.is_empty() && run.stderr.lines().count() == 1, "{run:?}");
    }

    /// Returns the item of a version.
    pub(crate) fn item(&self, version: u64) -> Value {
        let items = self.block_on(database::items(&self.client, self.store.history_table()));
        let is_version = |item: &Value| {
            let number = item["SK"]["S"]
                .as_str()
                .and_then(|key| key.strip_prefix('v')?.parse().ok());
            number == Some(version) && item.get("InsertedAt").is_some()
        };
        items.into_iter().find(is_version).unwrap()
    }

    pub(crate) fn delete(&self, item: &Value) {
        let key = |name: &str| AttributeValue::S(item[name]["S"].as_str().unwrap().to_owned());
        let request = self.client.delete_item().table_name(self.store.history_table());
        let request = request.key("PK", key("PK")).key("SK", key("SK"));
        self.block_on(request.send()).unwrap();
    }
}

#[test]
fn the_versions_of_each_layout_are_proven() {
    if is_skipped("an index takes time to be created") {
        return;
    }
    for layout in ["same", "own", "attached"] {
        let log = Log::new(layout);
        log.write(1..4);
        log.expect("", 3, "are not sealed");
        log.seal();
        let mark = log.item(2)["InsertedAt"]["S"].as_str().unwrap().to_owned();
        // Records of a stream have the time of their second only.
        let at = match (layout, mark.split_once('/')) {
            ("attached", _) | (_, None) => "--version 2".to_owned(),
            (_, Some((_, time))) => format!("--at {time}"),
        };
        let (_, verified) = log.prove("");
        assert_eq!(
            (&verified["Versions"], &verified["Withheld"]),
            (&json!([3]), &json!(0)),
            "{layout}"
        );
        log.write(4..6);
        let unsealed = "is not sealed yet: seal-fn seals versions within two minutes";
        for (options, versions) in [
            (String::new(), json!([3])),
            ("--version 1".to_owned(), json!([1])),
            ("2".to_owned(), json!([2])),
            (at, json!([2])),
            ("--all".to_owned(), json!([1, 2, 3])),
        ] {
            assert_eq!(log.prove(&options).1["Versions"], versions, "{layout} {options}");
        }
        assert!(log.prove_with("--all").stderr.contains("2 versions from 4 to 5"));
        log.expect("latest", 3, &format!("version 5 {unsealed}"));
        log.expect("--version 9", 3, "the latest is 5");
        log.expect("--log nowhere", 1, "the log has no readable file checkpoint");

        log.seal();
        let (whole, verified) = log.prove("--all");
        assert_eq!((&verified["Leaves"], &verified["NewestInLog"]), (&json!(5), &json!(5)));
        let (hidden, less) = log.prove("--all --hide Place --hide Actor --hide Kind");
        for secret in ["secret", "hall 2", "amy"] {
            // The author of an attached version is also an attribute.
            let is_left = secret == "amy" && layout == "attached";
            assert!(
                whole.contains(secret) && hidden.contains(secret) == is_left,
                "{layout} {secret}"
            );
        }
        assert_eq!(less["Withheld"], 5 * 5, "{layout}");
        let sum = |verified: &Value| verified["Shown"].as_u64().unwrap() + verified["Withheld"].as_u64().unwrap();
        assert_eq!(sum(&less), sum(&verified));
        let street = log.prove("--hide Place.Street").0;
        assert!(street.contains("hall 5") && !street.contains("secret"));
        log.expect("--hide 'Lines[0].X'", 2, "hidden: --hide Lines");
        log.expect("--hide Lines.X", 2, "hidden: --hide Lines");
        log.expect("--hide Place.Nothing", 2, "no version of the proof has this path");

        // Behind the product's back.
        let changed = log.item(4);
        let mut other = changed.clone();
        match layout {
            "attached" => other["Image"]["M"]["State"] = json!({"S": "off"}),
            _ => other["State"] = json!({"S": "off"}),
        }
        let put = |item| {
            log.block_on(put_into(&log.client, log.store.history_table(), item));
        };
        put(other);
        log.expect("4", 1, "version 4 was changed since it was sealed");
        log.expect("--all", 1, "version 4 was changed since it was sealed");
        log.prove("3");
        put(changed);
        // Marks that were set again: the whole log is read.
        let mut marked = log.item(3);
        marked["InsertedAt"] = json!({"S": "1970-01-01T00:00:00.000Z/"});
        put(marked);
        assert_eq!(log.prove("3").1["Versions"], json!([3]));
        log.delete(&log.item(2));
        log.expect("--all", 1, "version 2 was deleted since it was sealed");
    }
}

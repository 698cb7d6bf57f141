//! A table whose versions are sealed, in each layout, and changes behind the product's back.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use sealing::{
    sealer::{Sealed, Sealer},
    settings::{LogPlace, Settings},
};
use serde_json::{Value, json};
use shared::{domain::time_index::ALWAYS, dynamodb::Store};
use testkit::{
    attached::Orders,
    command::Run,
    database::{self, add_time_index, at_second},
    table::{self, Record, Table, create_history},
    updates::version,
    vzero::Vzero,
};
use tokio::time::Instant;

/// Number of entities. Each has four versions, and the tenth a tombstone.
pub(super) const ENTITIES: u64 = 16;
const OLD: &str = "2020-01-01T00:00:00.000Z/";

pub(super) enum Base {
    Own(Table),
    Attached(Orders),
}

pub(super) struct World {
    pub(super) base: Base,
    pub(super) store: Store,
    pub(super) folder: tempfile::TempDir,
    pub(super) sealer: Sealer,
}

impl World {
    pub(super) fn new(layout: &str) -> Self {
        let (base, store) = match layout {
            "attached" => {
                let orders = Orders::with(crate::VZERO, &json!({"ActorAttribute": "by"}));
                orders.block_on(add_time_index(&orders.client, &orders.history));
                let store = orders.store().with_time_index(None);
                orders.block_on(store.store_time_index_since(Some(ALWAYS))).unwrap();
                (Base::Attached(orders), store)
            }
            layout => {
                let mut table = crate::table_with_history(layout == "own");
                table.block_on(add_time_index(&table.client, table.store.history_table()));
                table.block_on(table.store.claim_layout()).unwrap();
                table.store = table.store.clone().with_time_index(None);
                table
                    .block_on(table.store.store_time_index_since(Some(ALWAYS)))
                    .unwrap();
                let store = table.store.clone();
                (Base::Own(table), store)
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let vzero = base.vzero();
        let [state, keys] = ["SealState", "SealKeys"].map(|name| vzero.endpoint.table(name));
        for name in [&state, &keys] {
            vzero.block_on(create_history(&vzero.client, name)).unwrap();
        }
        let sealer = base.sealer(folder.path(), state, keys);
        let world = Self {
            base,
            store,
            folder,
            sealer,
        };
        world.write();
        world
    }

    pub(super) fn write(&self) {
        let now = self.store.clock().now().as_secs();
        for entity in 0..ENTITIES {
            for number in 0..4 {
                let by = ["amy", "zoe"][usize::from(number % 2 == 0)];
                match &self.base {
                    Base::Own(table) => {
                        let update =
                            json!({"ID": self.id(entity), "A": number, "M": {"N": {"X": number}}, "Actor": by});
                        table.block_on(table::write(&at_second(&self.store, now - 3600 + number), update));
                    }
                    Base::Attached(orders) => {
                        let n = json!({"N": number.to_string()});
                        let map = json!({"M": {"N": {"M": {"X": n}}}});
                        orders.put(entity, &json!({"A": n, "M": map, "by": {"S": by}}));
                    }
                }
            }
        }
        match &self.base {
            Base::Own(table) => {
                let deletion = json!({"ID": self.id(10), "Deleted": true});
                table.block_on(table::write(&at_second(&self.store, now - 60), deletion));
            }
            Base::Attached(orders) => {
                orders.delete(10);
                let records = orders.records();
                let of = |number: usize| vec![records[4 * 15 + number].clone()];
                let deliver = |records: &[Record]| orders.deliver_to(self.store.clone(), records);
                // What the second one changed is missed, and then it is late.
                deliver(&of(0));
                deliver(&of(2));
                deliver(&records[..4 * 15]);
                orders.deliver_to(at_second(&self.store, now + 3000), &of(1));
                deliver(&records);
                let marked = orders.versions(15).join(" ");
                assert!(marked.contains("Late") && marked.contains("Missed"), "{marked}");
            }
        }
        // All but the tables' own times are old.
        for entity in [5, 11] {
            (1..=4).for_each(|number| self.change(entity, number, |item| item["InsertedAt"]["S"] = json!(OLD)));
        }
    }

    pub(super) fn vzero(&self) -> &Vzero {
        self.base.vzero()
    }

    pub(super) fn place(&self, name: &str) -> String {
        let items = self
            .vzero()
            .block_on(database::items(&self.vzero().client, self.store.history_table()));
        let place = items.iter().find(|item| item["SK"]["S"] == "sealed").unwrap();
        place[name]["S"].as_str().unwrap().to_owned()
    }

    pub(super) fn id(&self, entity: u64) -> String {
        match &self.base {
            Base::Own(_) => format!("E{entity}"),
            Base::Attached(orders) => orders.entity(entity).as_str().to_owned(),
        }
    }

    /// Returns the key as a user writes it.
    pub(super) fn key(&self, entity: u64) -> String {
        match &self.base {
            Base::Own(_) => self.id(entity),
            Base::Attached(_) => format!("c {entity}"),
        }
    }

    pub(super) fn seal(&self) -> u64 {
        self.vzero().block_on(async {
            let mut sealed = Sealed::default();
            let deadline = Instant::now() + Duration::from_secs(60);
            self.sealer.run(deadline, &mut sealed).await.unwrap();
            sealed.leaves
        })
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(super) fn audit(&self, options: &str) -> Run {
        self.vzero().run(&format!("audit --sealed --output json {options}"))
    }

    /// Runs an audit, and returns `entity version finding` of each finding, sorted.
    pub(super) fn findings(&self, options: &str) -> Vec<String> {
        let run = self.audit(options);
        let findings = run.lines.iter().filter(|line| line["Finding"].is_string());
        let entity = |line: &Value| (0..ENTITIES).find(|entity| line["ID"] == *self.id(*entity));
        let mut found: Vec<_> = findings
            .map(|line| {
                let entity = entity(line).map_or("-".to_owned(), |entity| entity.to_string());
                let other = line
                    .get("ContentOf")
                    .map(|other| format!(" of {other}"))
                    .unwrap_or_default();
                format!(
                    "{entity} {} {}{other}",
                    line["Version"],
                    line["Finding"].as_str().unwrap()
                )
            })
            .collect();
        found.sort();
        assert_eq!(run.code, i32::from(!found.is_empty()), "{} {}", run.stdout, run.stderr);
        let summary = run.lines.last().unwrap();
        let counted: u64 = summary["Findings"]
            .as_object()
            .unwrap()
            .values()
            .map(|count| count.as_u64().unwrap())
            .sum();
        assert_eq!(counted, found.len() as u64);
        found
    }

    pub(super) fn sort_key(&self, number: u64) -> String {
        self.store.digits().version_key(version(number))
    }

    pub(super) fn stored(&self, entity: u64, number: u64) -> Value {
        let items = self
            .vzero()
            .block_on(database::items(&self.vzero().client, self.store.history_table()));
        let is = |item: &Value| item["PK"]["S"] == *self.id(entity) && item["SK"]["S"] == *self.sort_key(number);
        items.into_iter().find(is).unwrap()
    }

    pub(super) fn put(&self, entity: u64, number: u64, mut item: Value) {
        item["PK"]["S"] = json!(self.id(entity));
        item["SK"]["S"] = json!(self.sort_key(number));
        self.vzero().block_on(database::put_into(
            &self.vzero().client,
            self.store.history_table(),
            item,
        ));
    }

    /// Puts an item as a version that seems to be old.
    pub(super) fn insert(&self, entity: u64, number: u64, mut item: Value) {
        item["InsertedAt"]["S"] = json!(OLD);
        self.put(entity, number, item);
    }

    pub(super) fn delete(&self, table: &str, key: [&str; 2]) {
        let request = self.vzero().client.delete_item().table_name(table);
        let s = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
        let request = request.key("PK", s(key[0])).key("SK", s(key[1]));
        self.vzero().block_on(request.send()).unwrap();
    }

    pub(super) fn delete_version(&self, entity: u64, number: u64) {
        self.delete(self.store.history_table(), [&self.id(entity), &self.sort_key(number)]);
    }

    pub(super) fn change(&self, entity: u64, number: u64, change: impl FnOnce(&mut Value)) {
        let mut item = self.stored(entity, number);
        let before = item.clone();
        change(&mut item);
        assert_ne!(item, before, "{entity} {number}");
        self.put(entity, number, item);
    }
}

impl Base {
    pub(super) fn sealer(&self, folder: &Path, state: String, keys: String) -> Sealer {
        let table = match self {
            Self::Own(table) => (table.name.clone(), None),
            Self::Attached(orders) => (orders.table.clone(), Some(orders.history.clone())),
        };
        let settings = Settings {
            tables: vec![table],
            state,
            keys,
            origin: "example.com/log".to_owned(),
            place: LogPlace::Folder {
                folder: folder.join("log"),
                key: folder.join("key"),
            },
        };
        let vzero = self.vzero();
        vzero
            .block_on(settings.sealer(&vzero.endpoint.config, &vzero.client))
            .unwrap()
    }

    pub(super) fn vzero(&self) -> &Vzero {
        match self {
            Self::Own(table) => table,
            Self::Attached(orders) => orders,
        }
    }
}

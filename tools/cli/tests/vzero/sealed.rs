//! `vzero audit --sealed`: what was changed behind the product's back is found, in each layout.

use std::{fs, path::Path, time::Duration};

use sealing::{
    run::{Sealed, Sealer},
    settings::{LogPlace, Settings},
};
use serde_json::{Value, json};
use shared::{domain::time_index::ALWAYS, dynamodb::Store};
use testkit::{
    attached::Orders,
    command::Run,
    database::{self, add_time_index, at_second},
    endpoint::is_skipped,
    table::{self, Record, Table, create_history},
    updates::version,
    vzero::Vzero,
};
use tokio::time::Instant;

const SKIPPED: &str = "an index takes time to be created";
/// Number of entities. Each has four versions, and the tenth a tombstone.
const ENTITIES: u64 = 16;
const OLD: &str = "2020-01-01T00:00:00.000Z/";

enum Base {
    Own(Table),
    Attached(Orders),
}

struct World {
    base: Base,
    store: Store,
    folder: tempfile::TempDir,
    sealer: Sealer,
}

impl World {
    fn new(layout: &str) -> Self {
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
        let (table, history) = match &base {
            Base::Own(table) => (table.name.clone(), None),
            Base::Attached(orders) => (orders.table.clone(), Some(orders.history.clone())),
        };
        let settings = Settings {
            tables: vec![(table, history)],
            state,
            keys,
            origin: "example.com/log".to_owned(),
            place: LogPlace::Folder {
                folder: folder.path().join("log"),
                key: folder.path().join("key"),
            },
        };
        let sealer = vzero
            .block_on(settings.sealer(&vzero.endpoint.config, &vzero.client))
            .unwrap();
        let world = Self {
            base,
            store,
            folder,
            sealer,
        };
        world.write();
        world
    }

    fn write(&self) {
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

    fn vzero(&self) -> &Vzero {
        self.base.vzero()
    }

    fn id(&self, entity: u64) -> String {
        match &self.base {
            Base::Own(_) => format!("E{entity}"),
            Base::Attached(orders) => orders.entity(entity).as_str().to_owned(),
        }
    }

    /// Returns the key as a user writes it.
    fn key(&self, entity: u64) -> String {
        match &self.base {
            Base::Own(_) => self.id(entity),
            Base::Attached(_) => format!("c {entity}"),
        }
    }

    fn seal(&self) -> u64 {
        self.vzero().block_on(async {
            let mut sealed = Sealed::default();
            let deadline = Instant::now() + Duration::from_secs(60);
            self.sealer.run(deadline, &mut sealed).await.unwrap();
            sealed.leaves
        })
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("log")
    }

    fn audit(&self, options: &str) -> Run {
        self.vzero().run(&format!("audit --sealed --output json {options}"))
    }

    /// Runs an audit, and returns `entity version finding` of each finding, sorted.
    fn findings(&self, options: &str) -> Vec<String> {
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

    fn sort_key(&self, number: u64) -> String {
        self.store.digits().version_key(version(number))
    }

    fn stored(&self, entity: u64, number: u64) -> Value {
        let items = self
            .vzero()
            .block_on(database::items(&self.vzero().client, self.store.history_table()));
        let is = |item: &Value| item["PK"]["S"] == *self.id(entity) && item["SK"]["S"] == *self.sort_key(number);
        items.into_iter().find(is).unwrap()
    }

    fn put(&self, entity: u64, number: u64, mut item: Value) {
        item["PK"]["S"] = json!(self.id(entity));
        item["SK"]["S"] = json!(self.sort_key(number));
        self.vzero().block_on(database::put_into(
            &self.vzero().client,
            self.store.history_table(),
            item,
        ));
    }

    /// Puts an item as a version that seems to be old.
    fn insert(&self, entity: u64, number: u64, mut item: Value) {
        item["InsertedAt"]["S"] = json!(OLD);
        self.put(entity, number, item);
    }

    fn delete(&self, table: &str, key: [&str; 2]) {
        let request = self.vzero().client.delete_item().table_name(table);
        let s = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
        let request = request.key("PK", s(key[0])).key("SK", s(key[1]));
        self.vzero().block_on(request.send()).unwrap();
    }

    fn delete_version(&self, entity: u64, number: u64) {
        self.delete(self.store.history_table(), [&self.id(entity), &self.sort_key(number)]);
    }

    fn change(&self, entity: u64, number: u64, change: impl FnOnce(&mut Value)) {
        let mut item = self.stored(entity, number);
        let before = item.clone();
        change(&mut item);
        assert_ne!(item, before, "{entity} {number}");
        self.put(entity, number, item);
    }
}

impl Base {
    fn vzero(&self) -> &Vzero {
        match self {
            Self::Own(table) => table,
            Self::Attached(orders) => orders,
        }
    }
}

/// Returns the map with an attribute: the item, or its image.
fn with<'a>(item: &'a mut Value, name: &str) -> &'a mut Value {
    match item.get(name).is_some() {
        true => item,
        false => &mut item["Image"]["M"],
    }
}

/// Changes a table in ten ways and more, each of another entity or version. Returns what is expected.
fn tamper(world: &World) -> Vec<String> {
    world.change(0, 2, |item| with(item, "A")["A"]["N"] = json!("99"));
    world.change(1, 2, |item| with(item, "M")["M"]["M"]["N"]["M"]["X"]["N"] = json!("99"));
    world.delete_version(2, 2);
    let mut item = world.stored(3, 4);
    with(&mut item, "A")["A"]["N"] = json!("99");
    world.insert(3, 9, item);
    let (two, three) = (world.stored(4, 2), world.stored(4, 3));
    world.put(4, 2, three);
    world.put(4, 3, two);
    let item = world.stored(5, 4);
    world.insert(5, 8, item);
    world.delete_version(5, 4);
    let item = world.stored(6, 3);
    world.insert(7, 9, item);
    world.delete_version(6, 3);
    world.change(8, 2, |item| {
        with(item, "RecordedAt")["RecordedAt"]["S"] = json!("2020-01-01T00:00:00.000000000Z");
    });
    world.change(9, 2, |item| with(item, "Actor")["Actor"]["S"] = json!("eve"));
    world.change(10, 5, |item| {
        drop(with(item, "Deleted").as_object_mut().unwrap().remove("Deleted"))
    });
    let keys = world.place("KeysTable");
    for item in world.vzero().block_on(database::items(&world.vzero().client, &keys)) {
        if item["Entity"]["S"] == *world.id(11) {
            let [pk, sk] = ["PK", "SK"].map(|name| item[name]["S"].as_str().unwrap());
            world.delete(&keys, [pk, sk]);
        }
    }
    (1..=4).for_each(|number| world.delete_version(12, number));
    let expected = "- 1 UnknownEntity,0 2 Changed,1 2 Changed,10 5 Changed,11 1 Unsealed,11 2 Unsealed,11 3 Unsealed,11 4 Unsealed,\
                    12 1 Missing,12 2 Missing,12 3 Missing,12 4 Missing,2 2 Missing,3 9 Unsealed,4 2 Swapped of 3,4 3 Swapped of 2,\
                    5 4 Missing,5 8 Renumbered of 4,6 3 Missing,7 9 Unsealed,8 2 Changed,9 2 Changed";
    expected.split(',').map(str::to_owned).collect()
}

impl World {
    fn place(&self, name: &str) -> String {
        let items = self
            .vzero()
            .block_on(database::items(&self.vzero().client, self.store.history_table()));
        let place = items.iter().find(|item| item["SK"]["S"] == "sealed").unwrap();
        place[name]["S"].as_str().unwrap().to_owned()
    }
}

#[test]
fn what_was_changed_behind_the_products_back_is_found() {
    if is_skipped("what_was_changed_behind_the_products_back_is_found", SKIPPED) {
        return;
    }
    for layout in ["same", "own", "attached"] {
        let world = World::new(layout);
        // Nothing is sealed, and all but the old ones are new.
        let sealed = world.seal();
        assert!(sealed > 4 * (ENTITIES - 1), "{layout}: {sealed}");
        assert_eq!(world.findings(""), [""; 0], "{layout}");
        for command in [
            format!("prune {} --keep 1 --reason old --yes", world.key(13)),
            format!("purge {} --wait 0s --reason request --yes", world.key(14)),
        ] {
            let run = world.vzero().run(&command);
            assert_eq!(run.code, 0, "{layout}: {}", run.stderr);
        }
        // The operations are not sealed yet.
        assert_eq!(world.findings(""), [""; 0], "{layout}");
        assert_eq!(world.seal(), 2, "{layout}");
        let vkey = world.log().join("vkey");
        let run = world.audit(&format!("--vkey {}", vkey.display()));
        let operations = run.lines.iter().filter(|line| line["Operation"].is_string());
        let mut operations: Vec<_> = operations
            .map(|line| {
                format!(
                    "{} {} {} {} {}",
                    line["Operation"], line["Version"], line["To"], line["Reason"], line["Verified"]
                )
            })
            .collect();
        operations.sort();
        assert_eq!(
            operations,
            [r#""Prune" 1 3 "old" true"#, r#""Purge" 1 4 "request" true"#],
            "{layout}"
        );
        let summary = run.lines.last().unwrap();
        assert_eq!(
            (run.code, &summary["NotSealedYet"], &summary["Removed"]),
            (0, &json!(0), &json!(7)),
            "{layout}"
        );

        // It begins again, with numbers that the log has.
        if let Base::Own(table) = &world.base {
            table.block_on(table::write(&world.store, json!({"ID": world.id(14), "A": 7})));
            assert_eq!(world.seal(), 1, "{layout}");
        }
        assert_eq!(world.findings(""), [""; 0], "{layout}");
        let expected = tamper(&world);
        assert_eq!(world.findings(""), expected, "{layout}");
        if layout == "same" {
            requests_are_sealed(&world, &expected);
        }
    }
}

/// Versions that the log lacks are sealed once on request.
fn requests_are_sealed(world: &World, before: &[String]) {
    assert_eq!(world.findings("--seal-missing"), before);
    assert_eq!(world.findings("--seal-missing"), before);
    assert_eq!(world.seal(), 6);
    assert_eq!(world.seal(), 0);
    let unsealed = |finding: &&String| !finding.ends_with("Unsealed");
    assert_eq!(
        world.findings(""),
        before.iter().filter(unsealed).cloned().collect::<Vec<_>>()
    );
}

#[test]
fn a_changed_log_is_found() {
    if is_skipped("a_changed_log_is_found", SKIPPED) {
        return;
    }
    let world = World::new("same");
    let kept = |name: &str| world.folder.path().join(name);
    world.seal();
    let early = fs::read(world.log().join("checkpoint")).unwrap();
    fs::write(kept("early"), &early).unwrap();
    let Base::Own(table) = &world.base else { return };
    table.write(json!({"ID": "E0", "A": 5}));
    assert_eq!(world.seal(), 1);
    fs::copy(world.log().join("checkpoint"), kept("late")).unwrap();
    let since = |name: &str| format!("--since-checkpoint {}", kept(name).display());
    assert_eq!(world.findings(&since("early")), [""; 0]);
    assert_eq!(world.findings(&since("late")), [""; 0]);

    // Another log of the same key.
    let other = World::new("same");
    fs::copy(kept("key"), other.folder.path().join("key")).unwrap();
    let other = resealed(other);
    fs::copy(other.log().join("checkpoint"), kept("other")).unwrap();
    assert_eq!(world.findings(&since("other")), ["- null Rewritten"]);
    fs::write(
        kept("foreign"),
        fs::read_to_string(kept("other")).unwrap().replace("example", "other"),
    )
    .unwrap();
    assert_eq!(world.findings(&since("foreign")), ["- null Checkpoint"]);

    // Truncated, with a checkpoint of the real key.
    fs::write(world.log().join("checkpoint"), &early).unwrap();
    assert_eq!(world.findings(""), [""; 0]);
    assert_eq!(world.findings(&since("late")), ["- null Truncated"]);
    fs::copy(kept("late"), world.log().join("checkpoint")).unwrap();

    for tile in ["tile/0/000.p/66", "tile/entries/000.p/66"] {
        let path = world.log().join(tile);
        let bytes = fs::read(&path).unwrap();
        let mut changed = bytes.clone();
        changed[75] ^= 1;
        replace(&path, &changed);
        let found = world.findings("");
        assert!(found.contains(&"- null Rewritten".to_owned()), "{tile}: {found:?}");
        // The content of the first entry ends there.
        assert_eq!(
            found.iter().any(|found| found.contains("Changed")),
            tile.contains("entries"),
            "{found:?}"
        );
        fs::remove_file(&path).unwrap();
        assert_eq!(world.findings(""), ["- null Rewritten"]);
        replace(&path, &bytes);
    }
    assert_eq!(world.findings(""), [""; 0]);
    let run = world.audit(&format!("--log {}", kept("nowhere").display()));
    assert!(run.code == 1 || run.code == 5, "{run:?}");
    fs::write(world.log().join("checkpoint"), "x").unwrap();
    assert_eq!(world.findings(""), ["- null Checkpoint"]);
}

fn replace(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
}

/// Seals a table with the key that its folder has now.
fn resealed(world: World) -> World {
    let _ = fs::remove_dir_all(world.log());
    let vzero = world.vzero();
    let Base::Own(table) = &world.base else { return world };
    let settings = Settings {
        tables: vec![(table.name.clone(), None)],
        state: world.place("StateTable"),
        keys: world.place("KeysTable"),
        origin: "example.com/log".to_owned(),
        place: LogPlace::Folder {
            folder: world.log(),
            key: world.folder.path().join("key"),
        },
    };
    let sealer = vzero
        .block_on(settings.sealer(&vzero.endpoint.config, &vzero.client))
        .unwrap();
    let world = World { sealer, ..world };
    world.seal();
    world
}

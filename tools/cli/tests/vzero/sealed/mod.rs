//! `vzero audit --sealed`: what was changed behind the product's back is found, in each layout.

mod world;

use std::{collections::BTreeMap, fs, path::Path};

use operations::sealed::{Kind, Operation};
use sealing::{place::Place, staged::Staged, state::StateTable};
use serde_json::{Value, json};
use testkit::{database, endpoint::is_skipped, table};

use self::world::{Base, ENTITIES, World};

const SKIPPED: &str = "an index takes time to be created";

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
        drop(with(item, "Deleted").as_object_mut().unwrap().remove("Deleted"));
    });
    delete_keys(world, 11);
    (1..=4).for_each(|number| world.delete_version(12, number));
    // Beside what operations removed.
    let mut item = world.stored(13, 4);
    with(&mut item, "A")["A"]["N"] = json!("99");
    world.insert(13, 2, item.clone());
    world.delete_version(13, 4);
    // A time that is ahead hides nothing.
    item["InsertedAt"]["S"] = json!("2999-01-01T00:00:00.000Z/");
    item.as_object_mut().unwrap().remove("TimePartition");
    world.put(15, 9, item);
    let mut all = Vec::new();
    if let Base::Own(_) = world.base {
        world.change(14, 1, |item| with(item, "A")["A"]["N"] = json!("99"));
        all.push("14 1 Changed".to_owned());
    }
    let expected = "- 1 UnknownEntity,0 2 Changed,1 2 Changed,10 5 Changed,11 1 Unsealed,11 2 Unsealed,11 3 Unsealed,11 4 Unsealed,\
                    12 1 Missing,12 2 Missing,12 3 Missing,12 4 Missing,2 2 Missing,3 9 Unsealed,4 2 Swapped of 3,4 3 Swapped of 2,\
                    5 4 Missing,5 8 Renumbered of 4,6 3 Missing,7 9 Unsealed,8 2 Changed,9 2 Changed,13 2 Changed,13 4 Missing,\
                    15 9 Unsealed";
    all.extend(expected.split(',').map(str::to_owned));
    all.sort();
    all
}

fn delete_keys(world: &World, entity: u64) {
    let keys = world.place("KeysTable");
    for item in world.vzero().block_on(database::items(&world.vzero().client, &keys)) {
        if item["Entity"]["S"] == *world.id(entity) && item["Table"]["S"] != "other" {
            let [pk, sk] = ["PK", "SK"].map(|name| item[name]["S"].as_str().unwrap());
            world.delete(&keys, [pk, sk]);
        }
    }
}

/// Adds an erasure of values to seal, of the table or of another one.
fn add_erasure(world: &World, id: u8, other: Option<&str>) {
    let place = world.vzero().block_on(Place::of(&world.store)).unwrap().unwrap();
    let operation = Operation {
        id: [id; 16],
        kind: Kind::Erase,
        table: other.map_or(place.table, str::to_owned),
        entity: world.id(12),
        versions: (1, 4),
        role: String::new(),
        reason: "asked".to_owned(),
        recorded_at: world.store.now().to_string(),
        paths: vec![r#"["Attribute","A"]"#.to_owned()],
        index: None,
    };
    let state = StateTable::new(world.vzero().client.clone(), &place.state);
    world.vzero().block_on(state.add_operation(&operation)).unwrap();
}

/// Audits while an attribute of the state, or of the pruning, has other values.
fn findings_with(world: &World, name: &str, values: &[(&str, Value)]) -> Vec<String> {
    let (vzero, table) = (world.vzero(), world.place("StateTable"));
    let mut items = vzero.block_on(database::items(&vzero.client, &table)).into_iter();
    let item = items
        .find(|item| item["Reason"]["S"] == name || item["SK"]["S"] == name)
        .unwrap();
    let mut changed = item.clone();
    for (name, value) in values {
        changed[*name] = value.clone();
    }
    vzero.block_on(database::put_into(&vzero.client, &table, changed));
    let found = world.findings("");
    vzero.block_on(database::put_into(&vzero.client, &table, item));
    found
}

#[test]
fn what_was_changed_behind_the_products_back_is_found() {
    if is_skipped(SKIPPED) {
        return;
    }
    for layout in ["same", "own", "attached"] {
        let mut world = World::new(layout);
        // Nothing is sealed, and all but the old ones are new.
        let sealed = world.seal();
        assert!(sealed > 4 * (ENTITIES - 1), "{layout}: {sealed}");
        // Another table of the log.
        let table = std::mem::replace(&mut world.sealer.tables[0].arn, "other".to_owned());
        assert_eq!(world.seal(), sealed, "{layout}");
        world.sealer.tables[0].arn = table;
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
        let missing = ["13 1 Missing", "13 2 Missing", "13 3 Missing"];
        let old = json!({"S": "2020-01-01T00:00:00.000000000Z"});
        assert_eq!(findings_with(&world, "old", &[("RecordedAt", old)]), missing);
        add_erasure(&world, 1, None);
        add_erasure(&world, 2, Some("other"));
        let path = world.log().join("checkpoint");
        let before = fs::read(&path).unwrap();
        assert_eq!(world.seal(), 4, "{layout}");
        let after = fs::read(&path).unwrap();
        // They are not published yet.
        fs::write(&path, before).unwrap();
        assert_eq!(world.findings(""), [""; 0], "{layout}");
        fs::write(&path, after).unwrap();
        add_erasure(&world, 3, Some("other"));
        assert_eq!(findings_with(&world, "old", &[("To", json!({"N": "4"}))]), missing);
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
            [
                r#""Erase" 1 4 "asked" true"#,
                r#""Prune" 1 3 "old" true"#,
                r#""Purge" 1 4 "request" true"#
            ],
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
            assert_eq!(world.seal(), 2, "{layout}");
        }
        assert_eq!(world.findings(""), [""; 0], "{layout}");
        let expected = tamper(&world);
        assert_eq!(world.findings(""), expected, "{layout}");
        if layout == "same" {
            requests_are_sealed(&world, &expected);
        }
        // Without keys, an operation tells nothing about the content of its leaf.
        delete_keys(&world, 13);
        for kind in ["prune", "purge"] {
            let values = [("Kind", json!({"S": kind})), ("To", json!({"N": "9"}))];
            let found = findings_with(&world, "old", &values);
            let unknown = found.iter().filter(|found| found.ends_with("UnknownEntity"));
            assert_eq!(unknown.count(), 2, "{layout} {kind}");
        }
    }
}

/// Versions that the log lacks are sealed once on request.
fn requests_are_sealed(world: &World, before: &[String]) {
    assert_eq!(world.seal(), 0);
    assert_eq!(world.findings("--seal-missing"), before);
    assert_eq!(world.findings("--seal-missing"), before);
    assert_eq!(world.seal(), 7);
    assert_eq!(world.seal(), 0);
    let unsealed = |finding: &&String| !finding.ends_with("Unsealed");
    assert_eq!(
        world.findings(""),
        before.iter().filter(unsealed).cloned().collect::<Vec<_>>()
    );
}

#[test]
fn a_changed_log_is_found() {
    if is_skipped(SKIPPED) {
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
    let mut other = World::new("same");
    fs::copy(kept("key"), other.folder.path().join("key")).unwrap();
    fs::remove_dir_all(other.log()).unwrap();
    let [state, keys] = ["StateTable", "KeysTable"].map(|name| other.place(name));
    other.sealer = other.base.sealer(other.folder.path(), state, keys);
    other.seal();
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
    let old = json!({"S": "2020-01-01T00:00:00.000000000Z"});
    assert_eq!(
        findings_with(&world, "state", &[("SealedAt", old)]),
        ["- null Truncated"]
    );
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
    // The staged batch forgets what is sealed.
    let state = table.block_on(world.sealer.state.read()).unwrap();
    let (staging, known) = (world.log().join(state.staging), BTreeMap::new());
    let staged = Staged::parse(&fs::read(&staging).unwrap()).unwrap();
    fs::write(staging, Staged { known, ..staged }.text().unwrap()).unwrap();
    assert_eq!(world.seal(), 2);
    assert_eq!(world.findings(""), ["0 5 SealedTwice", "10 5 SealedTwice"]);
    let run = world.audit(&format!("--log {}", kept("nowhere").display()));
    assert!(run.code == 1 || run.code == 5, "{run:?}");
    fs::write(world.log().join("checkpoint"), "x").unwrap();
    assert_eq!(world.findings(""), ["- null Checkpoint"]);
}

fn replace(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
}

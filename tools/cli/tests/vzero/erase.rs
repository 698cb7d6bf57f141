//! `vzero erase`, on versions that seal-fn's own code seals.

use std::{fs, path::Path};

use operations::read::items::scan_items;
use serde_json::{Value, json};
use shared::domain::{
    attached::key, entity::EntityId, quarantine::QuarantinedRecord, recorded_at::RecordedAt, sequence::SequenceNumber,
    version::Version,
};
use testkit::{
    command::{Arguments, Run},
    database,
    endpoint::is_skipped,
    http::{self, Message},
    table::Record,
};

use crate::prove::{Log, Source};

impl Log {
    fn erase(&self, options: &str) -> Run {
        let mut words = vec![
            "erase".to_owned(),
            self.key.clone(),
            "--reason".to_owned(),
            "asked".to_owned(),
        ];
        words.extend(format!("--wait 0s {options}").words());
        self.run(&words)
    }

    fn erased(&self, options: &str) -> Value {
        let run = self.erase(&format!("{options} --output json"));
        assert_eq!(run.code, 0, "{options}: {}", run.stderr);
        run.json()
    }

    fn entity(&self) -> EntityId {
        match self.store.attached_table() {
            Some(table) => key::parse(table, &self.key).unwrap(),
            None => database::entity(&self.key),
        }
    }

    fn records(&self) -> Vec<Record> {
        match &self.source {
            Source::Own(table) => table.records(),
            Source::Attached(orders) => orders.records(),
        }
    }

    fn quarantine(&self, record: &Record) {
        let quarantined = QuarantinedRecord {
            entity: self.entity(),
            number: SequenceNumber::new("7").unwrap(),
            kind: "Conflict".to_owned(),
            reason: "a reason".to_owned(),
            version: Version::new(2),
            at: RecordedAt::parse("2026-11-22T06:24:48Z").ok(),
            record: record.json().to_string(),
        };
        assert!(self.block_on(self.store.quarantine(&quarantined)).unwrap());
    }

    /// Returns everything that tables and files have, as texts.
    fn dump(&self, files: &[&Path]) -> String {
        let vzero = self;
        let items = vzero.block_on(scan_items(&self.store)).unwrap().into_iter();
        let mut items: Vec<_> = items.map(|item| serde_json::to_value(item).unwrap()).collect();
        for table in [
            self.store.latest_table(),
            self.store.history_table(),
            &self.settings.keys,
            &self.settings.state,
        ] {
            items.extend(vzero.block_on(database::items(&vzero.client, table)));
        }
        items.iter_mut().for_each(Value::sort_all_objects);
        let mut all: Vec<_> = items.iter().map(Value::to_string).collect();
        all.sort_unstable();
        let mut rest: Vec<_> = files.iter().map(|path| path.to_path_buf()).collect();
        while let Some(path) = rest.pop() {
            match fs::read_dir(&path) {
                Ok(entries) => rest.extend(entries.map(|entry| entry.unwrap().path())),
                Err(_) => all.push(String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()),
            }
        }
        all.join("\n")
    }
}

#[test]
fn an_erased_value_is_nowhere_and_everything_else_is_proven() {
    if is_skipped("an index takes time to be created") {
        return;
    }
    for layout in ["same", "own", "attached"] {
        let log = Log::new(layout);
        log.write(1..6);
        log.seal();
        let (old, before) = log.prove("--all");
        assert!(old.contains("secret"));
        log.write(6..7);
        let (records, failures) = (log.records(), log.folder.path().join("failures"));
        let (document, again) = (failures.join("a/b.json"), log.folder.path().join("again.json"));
        fs::create_dir_all(document.parent().unwrap()).unwrap();
        let text = log.document(&records).body.to_string();
        for path in [&document, &again] {
            fs::write(path, &text).unwrap();
        }
        log.quarantine(&records[1]);
        let folders = [failures.as_path(), &log.folder.path().join("log")];

        // Nothing is erased.
        let untouched = log.dump(&folders);
        let options = format!("--path Place.Street --failures {}", failures.display());
        let planned = log.erased(&format!("{options} --dry-run --current"));
        let expected = json!({"Versions": 6, "Quarantined": 1, "Documents": 1, "Current": true});
        assert_eq!(
            (&planned["WouldErase"], &planned["Paths"]),
            (&expected, &json!([{"Attribute": ["Place", "Street"]}])),
            "{layout}"
        );
        for (other, code, message) in [
            ("--path Lines.X --yes", 2, "only all of it can be erased: --path Lines"),
            (
                "--path 'Lines[0]' --yes",
                2,
                "only all of it can be erased: --path Lines",
            ),
            ("--path Place.Nothing --yes", 3, "no version has it"),
            ("--path State", 2, "without a terminal"),
        ] {
            let run = log.erase(other);
            assert!(
                run.code == code && run.stderr.contains(message),
                "{layout} {other}: {run:?}"
            );
        }
        if layout == "attached" {
            let run = log.erase("--path customer --yes");
            assert!(run.code == 2 && run.stderr.contains("cannot be erased"), "{run:?}");
        }
        assert!(log.dump(&folders) == untouched);

        let options = format!("{options} --yes");
        let noted = log.erase(&format!("{options} --path State"));
        assert!(
            noted.code == 0 && noted.stderr.contains("so will have its next version"),
            "{noted:?}"
        );
        let done = log.erased(&format!("{options} --current --mode inline"));
        assert_eq!(done["Outcome"], "Erased", "{layout} {done}");
        assert!(done["Remaining"].as_array().unwrap().len() >= 4);
        if let Source::Attached(orders) = &log.source {
            orders.deliver_to(log.store.clone(), &log.records());
            log.erased(&format!("{options} --current"));
        }
        let clean = log.dump(&folders);
        assert!(!clean.contains("secret"), "{layout}");
        let done = log.erased(&format!("{options} --current"));
        assert_eq!(
            (&done["Outcome"], &done["Versions"]),
            (&json!("Unchanged"), &json!(0)),
            "{layout} {done}"
        );
        assert!(log.dump(&folders) == clean, "{layout}");

        // The stream has the old records for a day.
        let redriven = log.json(
            &["admin", "redrive", again.to_str().unwrap(), "--yes", "--output", "json"],
            0,
        );
        assert_eq!(redriven["Malformed"], 0, "{redriven}");
        if let Source::Attached(orders) = &log.source {
            orders.deliver_to(log.store.clone(), &log.records());
        }
        assert!(log.dump(&folders) == clean, "{layout}: {redriven}");

        log.seal();
        let (proof, verified) = log.prove("--all");
        assert_eq!(verified["Versions"], json!([1, 2, 3, 4, 5, 6, 7]), "{layout}");
        assert_eq!(verified["Withheld"], 6 + 6, "{layout}");
        assert!(!proof.contains("secret") && proof.contains("hall 3") && proof.contains("\"asked\""));
        assert!(!log.prove("--all --hide Reason").0.contains("\"asked\""));
        assert_eq!(log.verify("", &old)["Shown"], before["Shown"]);
        log.delete(&log.item(2));
        log.expect("--all", 1, "version 2 was deleted since it was sealed");
    }
}

#[test]
fn everything_of_an_item_is_erased_but_its_keys() {
    if is_skipped("an index takes time to be created") {
        return;
    }
    for layout in ["own", "attached"] {
        let log = Log::new(layout);
        log.write(1..4);
        log.seal();
        log.erased("--yes");
        log.erased("--yes --current --mode inline");
        if let Source::Attached(orders) = &log.source {
            orders.deliver_to(log.store.clone(), &log.records());
        }
        log.erased("--yes --current --mode inline");
        assert_eq!(
            log.erased("--yes --current --mode inline")["Outcome"],
            "Unchanged",
            "{layout}"
        );
        let folder = log.folder.path().join("log");
        let dump = log.dump(&[&folder]);
        for value in ["secret", "amy", "hall 2"] {
            assert!(!dump.contains(value), "{layout} {value}");
        }
        log.seal();
        let (proof, verified) = log.prove("--all");
        assert_eq!(verified["Versions"], json!([1, 2, 3, 4]), "{layout}");
        assert!(proof.contains("RecordedAt"));
    }
}

#[test]
fn the_log_keeps_the_role_of_a_removal() {
    const ROLE: &str = "arn:aws:sts::123456789012:assumed-role/EraseRole/amy";
    if is_skipped("an index takes time to be created") {
        return;
    }
    let log = Log::new("same");
    log.seal();
    let identity = format!(
        "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>{ROLE}</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>"
    );
    let sts = http::serve(move |_| Message::new("HTTP/1.1 200 OK", identity.clone()));
    let denied = "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>";
    let denying = http::serve(move |_| Message::new("HTTP/1.1 403 Forbidden", denied.to_owned()));
    for (kind, command, endpoint, role) in [
        (
            "erase",
            "erase Press#1 --reason asked --wait 0s --yes",
            Some(&sts),
            ROLE,
        ),
        ("prune", "admin prune Press#1 --keep 1 --yes", Some(&denying), ""),
        ("purge", "admin purge Press#1 --wait 0s --yes", Some(&sts), ROLE),
        // A database on this machine accepts any credentials.
        ("prune", "admin prune Press#1 --keep 1 --yes", None, ""),
    ] {
        log.write(1..4);
        let environment: Vec<_> = endpoint
            .map(|url| ("AWS_ENDPOINT_URL_STS", &**url))
            .into_iter()
            .collect();
        let run = Run::wait(log.start_with(&environment, command));
        assert_eq!(run.code, 0, "{command}: {}", run.stderr);
        let note = run
            .stderr
            .split_once("the log keeps no role: ")
            .map(|(_, reason)| reason.trim_end());
        let denied = (endpoint == Some(&denying)).then_some("GetCallerIdentity failed: AccessDenied");
        assert_eq!(note, denied, "{command}");
        let items = log.block_on(database::items(&log.client, &log.settings.state));
        let operations = items.iter().filter(|item| item["Kind"]["S"] == kind);
        let newest = operations
            .max_by_key(|item| item["RecordedAt"]["S"].to_string())
            .unwrap();
        assert_eq!(newest["Role"]["S"], role, "{command}");
    }
}

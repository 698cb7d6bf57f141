//! The seal of a version, and evidence reports.

use std::process::Command;

use seal::{log::note::VerifierKey, proof::document::Document};
use serde_json::{Value, json};
use testkit::{
    endpoint::is_skipped,
    table::{self, Table},
};

use crate::{
    changes::run,
    escaping::{HOSTILE, is_inert},
    http::encoded,
    new_table,
    sealed::Sealing,
    served::Console,
};

const REPORT: &str = "/entity/report?id=E";

fn write(table: &Table, sealing: &Sealing, update: Value) {
    table.block_on(table::write(&sealing.store, update));
}

/// Returns the proofs of a report, whose other content is inert.
fn proofs(console: &Console, path: &str) -> (String, Vec<String>) {
    let answer = console.get(path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    let (head, body) = answer.body.split_once("<body>").unwrap();
    assert!(head.contains("default-src 'none'") && !head.contains("<script") && !head.contains("url("));
    let (shown, proofs) = body.split_once("<pre id=\"proof-1\">").unwrap_or((body, ""));
    let page = is_inert(
        path,
        &format!("{shown}<script src=\"/assets/console.js\" defer></script>"),
    );
    assert_eq!(page.links(), [""; 0], "{path}");
    let text = |part: &str| {
        let text = part.split_once("</pre>").unwrap().0;
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
        text.replace("&amp;", "&")
    };
    let parts = proofs.split("<pre id=\"proof-").filter(|part| !part.is_empty());
    (
        page.text,
        parts
            .map(text)
            .map(|part| part[part.find('{').unwrap()..].to_owned())
            .collect(),
    )
}

fn versions(proof: &str, key: &VerifierKey) -> Vec<u64> {
    let document = Document::parse(proof).unwrap();
    document.verify(key).unwrap().versions.into_iter().collect()
}

#[test]
fn a_version_has_a_seal_from_the_time_when_it_is_in_the_log() {
    if is_skipped(
        "a_version_has_a_seal_from_the_time_when_it_is_in_the_log",
        "an index takes time to be created",
    ) {
        return;
    }
    let table = new_table();
    let console = Console::of(&table);
    table.write(json!({"ID": "E", "A": "first"}));
    let (page, proof) = ("/version?id=E&version=2", "/version/proof?id=E&version=2");
    let shown = console.page("/version?id=E");
    assert!(!shown.text.contains("Seal") && console.json("/version?id=E")["Seal"].is_null());
    assert_eq!(console.ask(proof).status, 404);
    assert!(
        proofs(&console, REPORT)
            .0
            .contains("are not sealed: nothing of this report is proven")
    );

    let sealing = Sealing::of(&table);
    write(
        &table,
        &sealing,
        json!({"ID": "E", "A": "second", "Actor": "amy", "Reason": "why", "ChangeSet": "c"}),
    );
    write(&table, &sealing, json!({"ID": "F", "A": 1, "ChangeSet": "c"}));
    sealing.seal(&table);
    write(&table, &sealing, json!({"ID": "E", "A": "third"}));
    assert_eq!(
        console.json("/version?id=E&version=3")["Seal"],
        json!({"State": "NotSealed"})
    );
    assert!(
        console
            .page("/version?id=E&version=3")
            .text
            .contains("version 3 is not sealed yet")
    );
    assert_eq!(console.ask("/version/proof?id=E&version=3").status, 404);
    assert_eq!(console.ask("/version/proof?id=E&version=4").status, 404);
    let seal = &console.json(page)["Seal"];
    assert_eq!((&seal["State"], &seal["Size"]), (&json!("Sealed"), &json!(2)), "{seal}");
    let text = console.page(page).text;
    assert!(
        text.contains(&format!(
            "Index {} of the log example.com/log, whose checkpoint has 2 entries",
            seal["Index"]
        )),
        "{text}"
    );
    let answer = console.ask(proof);
    assert_eq!(
        answer.header("content-disposition"),
        Some("attachment; filename=\"proof.json\"")
    );
    let own = table.run("prove E --version 2").stdout;
    assert_eq!(answer.body.trim_end(), own.trim_end());
    assert_eq!(versions(&own, &sealing.key()), [2]);
    for path in [proof, REPORT, "/changes/report?change_set=c"] {
        console.requests(&format!("GET {path} => 401 | !~ proof-1"));
    }

    let (text, all) = proofs(&console, REPORT);
    assert_eq!(
        all.iter()
            .map(|proof| versions(proof, &sealing.key()))
            .collect::<Vec<_>>(),
        [[2]]
    );
    for part in [
        "Not sealed yet, and not in the proof: 2 versions from 1 to 3",
        "E, version 2",
        "amy",
        "why",
        "first",
        "third",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(console.ask("/changes/report?change_set=c").status, 404);
    run(&console, "/changes?change_set=c", &[]);
    let link = console
        .page("/changes?change_set=c")
        .links()
        .contains(&"/changes/report?change_set=c");
    let (text, all) = proofs(&console, "/changes/report?change_set=c");
    let all: Vec<_> = all.iter().map(|proof| versions(proof, &sealing.key())).collect();
    assert!(
        link && all.len() == 2 && all.contains(&vec![1]) && all.contains(&vec![2]),
        "{all:?}"
    );
    assert!(text.contains("F, version 1") && !text.contains("E, version 1"));

    // Behind the product's back.
    let mut item = table.items_of("E")["v2"].clone();
    item["A"] = json!({"S": "other"});
    table.put(item);
    let changed = "version 2 was changed since it was sealed";
    let shown = console.page(page);
    assert!(shown.text.contains(&format!("The seal does not hold: {changed}")) && shown.named("script").len() == 1);
    assert_eq!(console.json(page)["Seal"], json!({"State": "Contradicted"}));
    console.requests(&format!("GET {proof} | Cookie: {{cookie}} => 409 | ~ {changed}"));
    let (text, all) = proofs(&console, REPORT);
    assert!(
        text.contains(&format!("There is no proof of E: {changed}")) && all.is_empty(),
        "{text}"
    );
}

#[test]
fn hostile_values_stay_values() {
    if is_skipped("hostile_values_stay_values", "an index takes time to be created") {
        return;
    }
    let table = new_table();
    let (console, sealing) = (Console::of(&table), Sealing::of(&table));
    for text in HOSTILE {
        for extra in ["1", "2"] {
            write(
                &table,
                &sealing,
                json!({
                    "ID": text, "Actor": text, "Reason": {text: text}, "ChangeSet": "c", "A": format!("{text}{extra}"), text: {text: [text, extra]},
                }),
            );
        }
    }
    sealing.seal(&table);
    let command = Command::new("python3").arg("--version").output().is_ok();
    for text in HOSTILE {
        let id = encoded(text);
        let path = format!("/version?id={id}&version=1");
        let page = is_inert(&path, &console.get(&path).body);
        assert!(
            page.text.contains("Sealed. Index") && page.named("script").len() == 2,
            "{path}"
        );
        let path = format!("/entity/report?id={id}");
        let (shown, all) = proofs(&console, &path);
        assert!(shown.contains("zq"));
        let proof = &all[0];
        assert_eq!(versions(proof, &sealing.key()), [1, 2], "{path}");
        assert_eq!(Document::parse(proof).unwrap().entity, text);
        if command {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("evidence.html"), console.get(&path).body).unwrap();
            let line = shown
                .lines()
                .find_map(|line| line.find("python3").map(|at| &line[at..]))
                .unwrap();
            let line = &line[..line.find("proof.json").unwrap() + "proof.json".len()];
            let saved = Command::new("sh")
                .args(["-c", line])
                .current_dir(folder.path())
                .status()
                .unwrap();
            assert!(saved.success(), "{line}");
            assert_eq!(
                std::fs::read_to_string(folder.path().join("proof.json"))
                    .unwrap()
                    .trim_end(),
                proof
            );
        }
    }
    run(&console, "/changes?change_set=c", &[]);
    assert_eq!(
        proofs(&console, "/changes/report?change_set=c").1.len(),
        2 * HOSTILE.len()
    );
}

#[test]
fn a_report_has_the_newest_versions_and_shows_what_was_erased() {
    let table = new_table();
    let item = |key: &str, more: Value| {
        let mut item = json!({"PK": {"S": "E"}, "SK": {"S": key}, "A": {"S": format!("state of {key}")}});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        table.put(item);
    };
    item("v0", json!({"Latest": {"N": "1002"}}));
    for version in 1..=1002 {
        let erased = json!({"Erased": {"M": {"[\"Attribute\",\"Name\"]": {"M": {
            "At": {"S": "2026-11-26T13:20:52.000000000Z"}, "Reason": {"S": "<b>asked"},
        }}}}});
        item(&format!("v{version}"), if version == 900 { erased } else { json!({}) });
    }
    table.delete("E", "v800");
    let (text, _) = proofs(&Console::of(&table), REPORT);
    assert!(
        text.contains("has the newest versions only, from version 3 on") && text.contains("E800not in the history")
    );
    assert!(text.contains("Name: erased on 2026-11-26T13:20:52Z: <b>asked"));
    assert!(text.contains("E, version 3") && !text.contains("E, version 2 ") && text.contains("state of v2"));
}

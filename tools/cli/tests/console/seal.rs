//! The seal of a version, and evidence reports.

use std::{fs, process::Command};

use seal::proof::document::Document;
use sealing::place::{Place, verifier};
use serde_json::json;
use testkit::{endpoint::is_skipped, table::Table};

use crate::{
    changes::run,
    escaping::{HOSTILE, is_inert},
    http::encoded,
    new_table,
    sealed::Sealing,
    served::Console,
};

const REPORT: &str = "/entity/report?id=E";
const OF_SET: &str = "/changes/report?change_set=c";

/// Returns the text of a report, which is inert, and its proofs.
fn report(console: &Console, path: &str) -> (String, Vec<String>) {
    let body = console.get(path).body;
    let (head, body) = body.split_once("<body>").unwrap();
    assert!(head.contains("default-src 'none'") && !head.contains("<script") && !head.contains("url("));
    let mut parts = body.split("<pre id=\"proof-");
    let shown = parts.next().unwrap();
    let page = is_inert(
        path,
        &format!("{shown}<script src=\"/assets/console.js\" defer></script>"),
    );
    assert_eq!(page.links(), [""; 0], "{path}");
    let text = |part: &str| {
        let end = part.find("</pre>").unwrap();
        let text = part[part.find('{').unwrap()..end].replace("&lt;", "<");
        text.replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    };
    (page.text, parts.map(text).collect())
}

/// Returns the versions of proofs, which hold.
fn proven(table: &Table, proofs: &[String]) -> Vec<Vec<u64>> {
    let place = table.block_on(Place::of(&table.store)).unwrap().unwrap();
    let key = verifier(&place).unwrap();
    let proven = |proof: &String| Document::parse(proof).unwrap().verify(&key).unwrap();
    proofs
        .iter()
        .map(|proof| proven(proof).versions.into_iter().collect())
        .collect()
}

#[test]
fn a_version_is_sealed_in_time() {
    if is_skipped("an index takes time to be created") {
        return;
    }
    let table = new_table();
    let console = Console::of(&table);
    table.write(json!({"ID": "E", "A": "first"}));
    let expect = |lines: &str| {
        for line in lines.lines() {
            console.requests(&line.replace(" => ", " | Cookie: {cookie} => "));
        }
    };
    expect(
        "GET /version?id=E => 200 | !~ Seal
         GET /version/proof?id=E&version=1 => 404 | ~ not sealed
         GET /entity/report?id=E => 200 | ~ The versions are not sealed: nothing is proven | ~ first",
    );
    let sealing = Sealing::of(&table);
    let update = json!({"ID": "E", "A": "second", "Actor": "amy", "Reason": "why", "ChangeSet": "c"});
    sealing.write(&table, update);
    sealing.write(&table, json!({"ID": "F", "A": 1, "ChangeSet": "c"}));
    sealing.seal(&table);
    sealing.write(&table, json!({"ID": "E", "A": "third"}));
    expect(
        "GET /version?id=E&version=2 => 200 | ~ Sealed. | ~ whose checkpoint has 2 entries | ~ data-proof
         GET /version?id=E&version=3 => 200 | ~ Not sealed yet: | ~ version 3 is not sealed yet | !~ data-proof
         GET /version?id=E&version=2&format=json => 200 | ~ \"State\":\"Sealed\" | ~ \"Size\":2
         GET /version/proof?id=E&version=2 => 200 | content-disposition: attachment; filename=\"proof.json\"
         GET /version/proof?id=E&version=3 => 404 | ~ version 3 is not sealed yet
         GET /version/proof?id=E&version=4 => 404
         GET /changes/report?change_set=c => 404 | ~ read its versions first
         GET /entity/report?id=E => 200 | ~ Versions from 1 to 3 are not sealed yet, and not in the proof: 2. | ~ Reason | ~ amy | ~ third",
    );
    for path in ["/version/proof?id=E&version=2", REPORT, OF_SET] {
        console.requests(&format!("GET {path} => 401"));
    }
    let own = table.run("prove E --version 2").stdout;
    let proof = console.ask("/version/proof?id=E&version=2").body;
    assert_eq!(proof.trim_end(), own.trim_end());
    assert_eq!(proven(&table, &report(&console, REPORT).1), [[2]]);
    run(&console, "/changes?change_set=c", &[]);
    assert!(console.page("/changes?change_set=c").links().contains(&OF_SET));
    let (text, proofs) = report(&console, OF_SET);
    assert_eq!(proven(&table, &proofs), [[1], [2]]);
    assert!(text.contains("F, version 1") && text.contains("first") && !text.contains("E, version 1"));
    // Behind the product's back.
    let mut item = table.items_of("E")["v2"].clone();
    item["A"] = json!({"S": "other"});
    table.put(item);
    expect(
        "GET /version?id=E&version=2 => 200 | ~ The seal does not hold: | ~ version 2 was changed since it was sealed | !~ data-proof
         GET /version/proof?id=E&version=2 => 409 | ~ version 2 was changed since it was sealed
         GET /entity/report?id=E => 200 | ~ There is no proof of E: version 2 was changed since it was sealed | !~ <pre id",
    );
}

#[test]
fn hostile_values_stay_values() {
    if is_skipped("an index takes time to be created") {
        return;
    }
    let table = new_table();
    let (console, sealing) = (Console::of(&table), Sealing::of(&table));
    for (text, more) in HOSTILE.iter().flat_map(|text| [(text, "1"), (text, "2")]) {
        let update = json!({"ID": text, "Actor": text, "Reason": {*text: text}, "ChangeSet": "c", "A": format!("{text}{more}"), *text: {*text: [text, more]}});
        sealing.write(&table, update);
    }
    sealing.seal(&table);
    for text in HOSTILE {
        let path = format!("/version?id={}&version=1", encoded(text));
        let page = is_inert(&path, &console.get(&path).body);
        assert!(
            page.text.contains("Sealed. Index") && page.named("script").len() == 2,
            "{path}"
        );
        let path = format!("/entity/report?id={}", encoded(text));
        let (shown, proofs) = report(&console, &path);
        assert_eq!(proven(&table, &proofs), [[1, 2]], "{path}");
        assert!(shown.contains("zq") && Document::parse(&proofs[0]).unwrap().entity == text);
        // The command of the report.
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("evidence.html"), console.get(&path).body).unwrap();
        let (_, command) = shown.split_once("python3").unwrap();
        let command = format!("python3{} > proof.json", command.split_once(" > proof.json").unwrap().0);
        let saved = Command::new("sh")
            .args(["-c", &command])
            .current_dir(folder.path())
            .status();
        assert!(saved.unwrap().success(), "{command}");
        assert_eq!(
            fs::read_to_string(folder.path().join("proof.json")).unwrap().trim_end(),
            proofs[0]
        );
    }
    run(&console, "/changes?change_set=c", &[]);
    assert_eq!(report(&console, OF_SET).1.len(), 2 * HOSTILE.len());
}

#[test]
fn a_report_has_the_newest_versions_and_shows_what_was_erased() {
    let table = new_table();
    let erased = json!({"M": {"[\"Attribute\",\"Name\"]": {"M": {"At": {"S": "2026-11-26T13:20:52.000000000Z"}, "Reason": {"S": "<b>asked"}}}}});
    table.put(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "A": {"S": "now"}, "Latest": {"N": "1002"}}));
    for version in (1..=1002).filter(|version| *version != 800) {
        let erased = if version == 900 { &erased } else { &json!({"M": {}}) };
        table.put(json!({"PK": {"S": "E"}, "SK": {"S": format!("v{version}")}, "A": {"S": format!("state of v{version}")}, "Erased": erased}));
    }
    let text = report(&Console::of(&table), REPORT).0;
    let erased = "Name: erased on 2026-11-26T13:20:52Z: <b>asked";
    for part in [
        "the newest 1000 versions only",
        "E, version 800It is not in",
        erased,
        "E, version 3",
        "state of v2",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("E, version 2It") && !text.contains("E, version 2V"));
}

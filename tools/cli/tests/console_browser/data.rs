//! Test data: orders, machines of a factory, and deliberately inconsistent items.

use operations::revision::{self, ChangeOptions};
use serde_json::{Value, json};
use shared::{
    clock,
    config::WriteMode,
    domain::{request_id::RequestId, version::Version},
};
use testkit::{
    database,
    table::{self, Table},
};

/// An entity with all kinds of attributes.
pub(crate) const ORDER: &str = "Order#2024-0117";
/// The order of the screenshots: placed, paid, changed, deleted by mistake, restored and delivered in two days.
pub(crate) const SHOWN: &str = "Order#2026-1042";
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

pub(crate) fn feed(table: &Table) {
    for version in 1..=125 {
        table.write(reading(version));
    }
    for update in orders() {
        table.write(update);
    }
    shown(table);
    table.put(json!({
        "PK": {"S": "Camera#3"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "Time": {"S": "2024-05-01T09:00:00"},
        "Modes": {"SS": ["day", "night"]}, "Zooms": {"NS": ["1", "2.50"]}, "Keys": {"BS": ["iVBORw0KGgo=", "AAECAw=="]},
        "Still": {"B": "iVBORw0KGgo="}, "Lens": {"M": {"Rings": {"L": [{"M": {"F": {"N": "1.80"}}}, {"NULL": true}]}}},
        "On": {"BOOL": true}, "Note": {"S": ""},
    }));
    table.put_version("Camera#3");
    broken(table);
}

/// Returns a reading of a thermostat, one per minute.
fn reading(version: u64) -> Value {
    let state = if version.is_multiple_of(40) { "WARNING1" } else { "OK" };
    json!({
        "ID": "Thermostat#7", "Time": format!("2024-05-01T{:02}:{:02}:00", 6 + version / 60, version % 60),
        "Temperature": 18 + version % 7, "State": state, "Actor": "sensor-7", "Reason": "reading",
    })
}

fn orders() -> [Value; 7] {
    let lines = |cups: u64| json!([{"Article": "Kettle", "Price": 39.90, "Count": 1}, {"Article": "Cup", "Price": 20, "Count": cups}]);
    let deleted = "Order#2024-0118";
    [
        json!({
            "ID": ORDER, "Time": "2024-01-17T08:00:00", "Status": "placed", "Total": 119.90, "Currency": "EUR", "Lines": lines(4),
            "Address": {"Name": "A. Person", "City": "Utrecht", "Floor": null}, "Actor": "shop", "Reason": "placed",
        }),
        json!({"ID": ORDER, "Time": "2024-01-17T09:30:00", "Total": 99.90, "Actor": "warehouse", "Reason": "a cup broke", "Lines": lines(3)}),
        json!({
            "ID": ORDER, "Time": "2024-01-18T07:15:00", "Status": "sent", "Parcel": {"Carrier": "Post", "Number": "3SABC123"},
            "Address": {"Name": "A. Person", "City": "Delft", "Floor": 2}, "Actor": "warehouse", "Reason": "sent",
        }),
        json!({"ID": ORDER, "Time": "2024-01-19T12:00:00", "Status": "cancelled", "Total": 0, "Actor": "shop", "Reason": "a wrong click"}),
        json!({"ID": deleted, "Time": "2024-01-17T10:00:00", "Status": "placed", "Total": 12.50, "Actor": "shop", "Reason": "placed"}),
        json!({"ID": deleted, "Time": "2024-01-17T10:05:00", "Status": "paid", "Actor": "shop", "Reason": "paid"}),
        json!({"ID": deleted, "Time": "2024-02-01T00:00:00", "Deleted": true, "Actor": "privacy", "Reason": "the customer asked for it"}),
    ]
}

/// Writes the order of the screenshots, and machines of a factory, at times before now.
fn shown(table: &Table) {
    let at = |seconds: u64| database::at_second(&table.store, clock::since_epoch().as_secs() - seconds);
    let write = |id: &str, before: u64, actor: &str, reason: &str, mut update: Value| {
        (update["ID"], update["Actor"], update["Reason"]) = (json!(id), json!(actor), json!(reason));
        table.runtime.block_on(table::write(&at(before), update));
    };
    let address = |city: &str| json!({"Name": "Alice Example", "City": city});
    let placed =
        json!({"Status": "placed", "Total": 119.90, "Currency": "EUR", "Cups": 4, "Address": address("Utrecht")});
    let parcel = json!({"Status": "shipped", "Parcel": {"Carrier": "Post", "Number": "3SABC123"}});
    for (minutes, actor, reason, changes) in [
        (47 * 60, "shop", "checkout", placed),
        (46 * 60, "payments", "card payment received", json!({"Status": "paid"})),
        (
            45 * 60,
            "alice",
            "customer called: new address",
            json!({"Address": address("Delft")}),
        ),
        (
            23 * 60,
            "bob",
            "one cup broke, refunded",
            json!({"Cups": 3, "Total": 99.90}),
        ),
        (22 * 60, "warehouse", "picked", json!({"Status": "packed"})),
        (5 * 60, "carol", "wrong order selected", json!({"Deleted": true})),
        (3 * 60, "warehouse", "handed over", parcel),
        (12, "carrier", "signed by a neighbor", json!({"Status": "delivered"})),
    ] {
        write(SHOWN, minutes * MINUTE, actor, reason, changes);
        if reason == "wrong order selected" {
            let undo = database::update(json!({"ID": SHOWN, "Actor": "alice", "Reason": "undo the deletion"}));
            let options = ChangeOptions {
                changes: undo.changes,
                ..ChangeOptions::default()
            };
            let (store, version, mode) = (
                at(4 * HOUR),
                Version::new(5).unwrap(),
                database::mode(WriteMode::Inline),
            );
            let restored = revision::restore(
                &store,
                &undo.entity,
                version,
                RequestId::new("undo").unwrap(),
                options,
                mode,
            );
            table.runtime.block_on(restored).unwrap();
        }
    }
    for (id, state, reason) in [
        ("Press#12", "WARNING1", "oil pressure low"),
        ("Conveyor#7", "ERROR2", "belt torn"),
        ("Robot#3", "WARNING1", "calibration due"),
    ] {
        for (hours, state, actor, reason) in [(6, "OK", "line-control", "shift start"), (4, state, "bob", reason)] {
            let before = hours * HOUR + id.len() as u64 * MINUTE;
            write(id, before, actor, reason, json!({"State": state, "Line": 4}));
        }
    }
}

/// Creates gaps, records in quarantine and a malformed latest item.
fn broken(table: &Table) {
    for id in ["Pump#9", "Pump#10"] {
        for (update, pressure) in [(1, 4.2), (2, 6.8), (3, 4.1)] {
            let time = format!("2024-05-01T09:0{update}:00");
            table.write(json!({"ID": id, "Time": time, "Pressure": pressure, "Actor": "scada"}));
        }
        table.delete(id, "v2");
    }
    let image = json!({"PK": {"S": "Pump#9"}, "SK": {"S": "v0"}, "Latest": {"N": "2"}, "Pressure": {"N": "6.8"}});
    table.quarantine("Pump#9", "9", "Conflict", &image);
    let malformed = json!({"PK": {"S": "Pump#11"}, "SK": {"S": "v0"}, "State": {"S": "no Latest"}});
    table.put(malformed.clone());
    table.quarantine("Pump#11", "11", "Malformed", &malformed);
}

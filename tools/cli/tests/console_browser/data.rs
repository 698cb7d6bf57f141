//! Test data: written by the stack, except for deliberately inconsistent items.

use serde_json::{Value, json};

use crate::world::World;

/// An entity whose history has several pages.
pub(crate) const LONG: &str = "Thermostat#7";
pub(crate) const VERSIONS: u64 = 125;
/// An entity with all kinds of attributes.
pub(crate) const ORDER: &str = "Order#2024-0117";
/// An entity with sets and binaries.
pub(crate) const CAMERA: &str = "Camera#3";
/// The order of the screenshots: placed, paid, changed, deleted by mistake, restored and delivered in two days.
pub(crate) const SHOWN: &str = "Order#2026-1042";
pub(crate) const DELETED: &str = "Order#2024-0118";
/// An entity whose second version is in quarantine instead of in history.
pub(crate) const REDRIVABLE: &str = "Pump#9";
/// An entity whose second version was deleted.
pub(crate) const GAP: &str = "Pump#10";
/// An entity whose latest item is malformed.
pub(crate) const MALFORMED: &str = "Pump#11";

pub(crate) async fn feed(world: &World) {
    for version in 1..=VERSIONS {
        world.write(reading(version)).await;
    }
    for update in orders() {
        world.write(update).await;
    }
    shown(world).await;
    world
        .put(json!({
            "PK": {"S": CAMERA}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "Time": {"S": "2024-05-01T09:00:00"},
            "Modes": {"SS": ["day", "night"]}, "Zooms": {"NS": ["1", "2.50"]}, "Keys": {"BS": ["iVBORw0KGgo=", "AAECAw=="]},
            "Still": {"B": "iVBORw0KGgo="}, "Lens": {"M": {"Rings": {"L": [{"M": {"F": {"N": "1.80"}}}, {"NULL": true}]}}},
            "On": {"BOOL": true}, "Note": {"S": ""},
        }))
        .await;
    broken(world).await;
}

/// Returns a reading of a thermostat, one per minute.
fn reading(version: u64) -> Value {
    let state = if version.is_multiple_of(40) { "WARNING1" } else { "OK" };
    json!({
        "ID": LONG, "Time": format!("2024-05-01T{:02}:{:02}:00", 6 + version / 60, version % 60),
        "Temperature": 18 + version % 7, "State": state, "Actor": "sensor-7", "Reason": "reading",
    })
}

fn orders() -> [Value; 7] {
    [
        json!({
            "ID": ORDER, "Time": "2024-01-17T08:00:00", "Status": "placed", "Total": 119.90, "Currency": "EUR",
            "Lines": [{"Article": "Kettle", "Price": 39.90, "Count": 1}, {"Article": "Cup", "Price": 20, "Count": 4}],
            "Address": {"Name": "A. Person", "City": "Utrecht", "Floor": null}, "Actor": "shop", "Reason": "placed",
        }),
        json!({
            "ID": ORDER, "Time": "2024-01-17T09:30:00", "Total": 99.90, "Actor": "warehouse", "Reason": "a cup broke",
            "Lines": [{"Article": "Kettle", "Price": 39.90, "Count": 1}, {"Article": "Cup", "Price": 20, "Count": 3}],
        }),
        json!({
            "ID": ORDER, "Time": "2024-01-18T07:15:00", "Status": "sent", "Parcel": {"Carrier": "Post", "Number": "3SABC123"},
            "Address": {"Name": "A. Person", "City": "Delft", "Floor": 2}, "Actor": "warehouse", "Reason": "sent",
        }),
        json!({"ID": ORDER, "Time": "2024-01-19T12:00:00", "Status": "cancelled", "Total": 0, "Actor": "shop", "Reason": "a wrong click"}),
        json!({"ID": DELETED, "Time": "2024-01-17T10:00:00", "Status": "placed", "Total": 12.50, "Actor": "shop", "Reason": "placed"}),
        json!({"ID": DELETED, "Time": "2024-01-17T10:05:00", "Status": "paid", "Actor": "shop", "Reason": "paid"}),
        json!({
            "ID": DELETED, "Time": "2024-02-01T00:00:00", "Deleted": true, "Actor": "privacy",
            "Reason": "the customer asked for it",
        }),
    ]
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// Writes the order of the screenshots, and equipment of a factory, at times before now.
async fn shown(world: &World) {
    let order = |actor: &str, reason: &str, mut update: Value| {
        update["ID"] = json!(SHOWN);
        (update["Actor"], update["Reason"]) = (json!(actor), json!(reason));
        update
    };
    let address = |city: &str| json!({"Name": "Alice Example", "City": city});
    let placed =
        json!({"Status": "placed", "Total": 119.90, "Currency": "EUR", "Cups": 4, "Address": address("Utrecht")});
    let parcel = json!({"Status": "shipped", "Parcel": {"Carrier": "Post", "Number": "3SABC123"}});
    for (before, actor, reason, changes) in [
        (47, "shop", "checkout", placed),
        (46, "payments", "card payment received", json!({"Status": "paid"})),
        (
            45,
            "alice",
            "customer called: new address",
            json!({"Address": address("Delft")}),
        ),
        (23, "bob", "one cup broke, refunded", json!({"Cups": 3, "Total": 99.90})),
        (22, "warehouse", "picked", json!({"Status": "packed"})),
    ] {
        world.write_before(before * HOUR, order(actor, reason, changes)).await;
    }
    let deleted = order("carol", "wrong order selected", json!({}));
    world.change_before(5 * HOUR, None, deleted).await;
    let restored = order("alice", "undo the deletion", json!({}));
    world.change_before(4 * HOUR, Some(5), restored).await;
    world
        .write_before(3 * HOUR, order("warehouse", "handed over", parcel))
        .await;
    let delivered = json!({"Status": "delivered"});
    let delivered = order("carrier", "signed by a neighbor", delivered);
    world.write_before(12 * MINUTE, delivered).await;
    for (entity, state, reason) in [
        ("Press#12", "WARNING1", "oil pressure low"),
        ("Conveyor#7", "ERROR2", "belt torn"),
        ("Robot#3", "WARNING1", "calibration due"),
    ] {
        for (hours, state, actor, reason) in [(6, "OK", "line-control", "shift start"), (4, state, "bob", reason)] {
            let update = json!({"ID": entity, "State": state, "Line": 4, "Actor": actor, "Reason": reason});
            world
                .write_before(hours * HOUR + entity.len() as u64 * MINUTE, update)
                .await;
        }
    }
}

/// Creates gaps, records in quarantine and a malformed latest item.
async fn broken(world: &World) {
    // An existing item causes a conflict, and the record is in quarantine. Then the item is deleted.
    let by_hand = json!({"PK": {"S": REDRIVABLE}, "SK": {"S": "v2"}, "By": {"S": "hand"}});
    world
        .put(json!({"PK": {"S": MALFORMED}, "SK": {"S": "v0"}, "State": {"S": "no Latest"}}))
        .await;
    for entity in [REDRIVABLE, GAP] {
        for (update, pressure) in [(1, 4.2), (2, 6.8), (3, 4.1)] {
            if (entity, update) == (REDRIVABLE, 2) {
                world.put(by_hand.clone()).await;
            }
            let time = format!("2024-05-01T09:0{update}:00");
            world
                .write(json!({"ID": entity, "Time": time, "Pressure": pressure, "Actor": "scada"}))
                .await;
        }
    }
    world.has_quarantined(&[REDRIVABLE, MALFORMED]).await;
    world.has_versions(REDRIVABLE, &["v1", "v3"]).await;
    world.delete(REDRIVABLE, "v2").await;
    world.has_versions(GAP, &["v1", "v2", "v3"]).await;
    world.delete(GAP, "v2").await;
    world.has_versions(LONG, &[&format!("v{VERSIONS}")]).await;
    world.has_versions(ORDER, &["v4"]).await;
    world.has_versions(DELETED, &["v3"]).await;
    world.has_versions(CAMERA, &["v1"]).await;
}

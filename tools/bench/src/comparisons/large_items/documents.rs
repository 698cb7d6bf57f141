//! Documents of a given size, as users store them: orders with lines, devices with readings, and texts in sections.

use serde_json::{Map, Value, json};
use shared::domain::{Item, plain, size};

use crate::error::{BenchError, cannot};

/// Text in English. A repetition of it is farther away than the 32 KB that zlib looks back.
const TEXT: [&str; 4] = [
    include_str!("../../../../../docs/vzero.md"),
    include_str!("../../../../../docs/operations.md"),
    include_str!("../../../../../docs/users.md"),
    include_str!("../../../../../docs/reliability.md"),
];
/// Size of an item without its document, at most.
const AROUND: usize = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Order,
    Device,
    Text,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Order, Self::Device, Self::Text];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Device => "device",
            Self::Text => "text",
        }
    }

    /// Returns the members of an update that creates an item of nearly this size.
    pub(super) fn document(self, kilobytes: usize) -> Result<Map<String, Value>, BenchError> {
        let room = kilobytes * 1024 - AROUND;
        let (mut used, mut parts) = (0, Vec::new());
        loop {
            let part = self.part(parts.len());
            let item = plain::from_json(part.clone()).map_err(cannot("make a document"))?;
            used += 1 + size::of_value(&item);
            if used > room && !parts.is_empty() {
                return Ok(self.members(parts));
            }
            parts.push(part);
        }
    }

    fn members(self, parts: Vec<Value>) -> Map<String, Value> {
        let members = match self {
            Self::Order => json!({"Customer": "C-204417", "Status": "PAID", "Currency": "EUR", "Lines": parts}),
            Self::Device => json!({"Model": "TX-400", "Firmware": "4.12.7", "Site": "Plant 7", "Readings": parts}),
            Self::Text => json!({"Title": "Operations", "Author": "M. Example", "Sections": parts}),
        };
        members.as_object().cloned().unwrap_or_default()
    }

    fn part(self, index: usize) -> Value {
        let random = |of: u64| mixed(index as u64 * 8 + of);
        match self {
            Self::Order => json!({
                "Sku": format!("SKU-{:010X}", random(0) >> 24), "Name": format!("Bearing {} mm", random(1) % 400),
                "Quantity": random(2) % 20, "UnitPrice": cents(random(3) % 100_000), "Discount": cents(random(4) % 3 * 5),
                "Warehouse": format!("WH-{}", random(5) % 9),
            }),
            Self::Device => json!({
                "At": format!("2026-11-22T{:02}:{:02}:{:02}Z", index / 360 % 24, index / 6 % 60, index % 6 * 10),
                "Temperature": cents(7_000 + random(0) % 300), "Pressure": cents(400 + random(1) % 20),
                "Vibration": cents(random(2) % 9), "Status": if random(3) % 10 == 0 { "WARNING1" } else { "OK" },
            }),
            Self::Text => {
                let body = section(index);
                json!({"Heading": body.chars().take(40).collect::<String>(), "Revision": random(0) % 30, "Body": body})
            }
        }
    }
}

/// Returns an amount with two decimal places.
fn cents(amount: u64) -> Value {
    json!({"$number": format!("{}.{:02}", amount / 100, amount % 100)})
}

/// Returns ten lines of the text.
fn section(index: usize) -> String {
    let lines: Vec<_> = TEXT.iter().flat_map(|text| text.lines()).collect();
    let start = index * 10 % lines.len();
    lines
        .iter()
        .cycle()
        .skip(start)
        .take(10)
        .copied()
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns a number that looks random (`SplitMix64`).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Returns the image of a latest item with these attributes.
pub(super) fn image(entity: &str, document: &Map<String, Value>) -> Result<Item, BenchError> {
    let mut image = json!({
        "PK": entity, "SK": "v0", "Latest": 7, "RequestId": format!("00000000-0000-4000-8000-{:012}", 7),
        "RecordedAt": "2026-11-22T06:24:48.123456000Z", "RecordedVersion": 7,
    });
    if let Some(image) = image.as_object_mut() {
        image.extend(document.clone());
    }
    let members = image.as_object().cloned().unwrap_or_default().into_iter();
    let attributes = members.map(|(name, value)| Ok((name, plain::from_json(value)?)));
    let attributes = attributes.collect::<Result<std::collections::HashMap<_, _>, plain::InvalidPlain>>();
    Ok(Item::from(attributes.map_err(cannot("make a document"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_nearly_its_size() {
        for kind in Kind::ALL {
            for kilobytes in [1, 10, 100, 390] {
                let image = image("E#1", &kind.document(kilobytes).unwrap()).unwrap();
                let bytes = size::of_item(&image);
                assert!(bytes <= kilobytes * 1024, "{} {kilobytes}: {bytes}", kind.name());
                assert!(
                    kilobytes == 1 || bytes > kilobytes * 1024 - 2048,
                    "{} {kilobytes}: {bytes}",
                    kind.name()
                );
            }
        }
    }
}

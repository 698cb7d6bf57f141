//! Records of one entity that are in quarantine.

use maud::{Markup, html};
use serde_json::Value;
use shared::domain::{attributes, quarantine::QuarantinedRecord, size};
use stream_fn::record;

use crate::{
    current, page, time,
    value::{self, DisplayLimits},
};

const COLUMNS: [&str; 6] = ["Version", "Kind", "Reason", "Time", "Image", "Sequence number"];
/// Maximum number of displayed attributes of a record.
const MAX_ATTRIBUTES: usize = 200;
/// Maximum size of an image whose values are shown like those of an item. A larger one has the limits of a cell, so that the
/// markup of nested values does not make the page much larger than the record.
const MAX_IMAGE_BYTES: usize = 16 * 1024;
/// Maximum number of displayed characters of an invalid image.
const MAX_INVALID_IMAGE: usize = 2000;

/// Renders the records with their reasons and images, nothing if there are none.
pub(crate) fn section(records: &[QuarantinedRecord]) -> Markup {
    html! {
        @if !records.is_empty() {
            h2 #quarantine { "Quarantine" }
            p.note {
                "These changes can never become a version. "
                @if !current::is_attached() { code { "vzero admin repair" } " stores those that can be stored after a repair, " }
                code { "vzero admin redrive quarantine:ID --drop-conflicts --drop-malformed" } " deletes them."
            }
            (page::table("Records in quarantine", &COLUMNS, &html! { @for record in records { (row(record)) } }))
        }
    }
}

fn row(record: &QuarantinedRecord) -> Markup {
    html! {
        tr {
            td { @if let Some(version) = record.version { (version) } }
            td { span.bad { (value::word(&record.kind)) } }
            td { (value::word(&record.reason)) }
            td { @if let Some(at) = record.at { (time::recorded(at)) } }
            td { (image(&record::to_json(&record.record)["dynamodb"]["NewImage"])) }
            td { (value::word(record.number.as_str())) }
        }
    }
}

fn image(image: &Value) -> Markup {
    let text = image.to_string();
    match attributes::item_from_dynamodb_json(&text) {
        _ if image.is_null() => html! { span.muted { "None" } },
        Ok(item) => {
            let limits = match size::of_item(&item) > MAX_IMAGE_BYTES {
                true => DisplayLimits::CELL,
                false => DisplayLimits::ITEM,
            };
            value::attributes(&item, limits, MAX_ATTRIBUTES)
        }
        Err(_) => {
            let short: String = text.chars().take(MAX_INVALID_IMAGE).collect();
            html! { span.muted { "Not an item: " } code { (value::word(&short)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_images_are_truncated() {
        let small = json!({"A": {"L": (0..20).map(|n| json!({"N": n.to_string()})).collect::<Vec<_>>()}});
        assert!(image(&small).into_string().contains(">19<"));
        let leaves = |_| json!({"L": vec![json!({"NULL": true}); 30]});
        let nested = |_| json!({"L": (0..30).map(leaves).collect::<Vec<_>>()});
        let large = json!({"A": {"L": (0..30).map(nested).collect::<Vec<_>>()}});
        assert!(image(&large).into_string().len() < 100_000);
        let many: serde_json::Map<_, _> = (0..20_000).map(|n| (format!("a{n:05}"), json!({"N": "1"}))).collect();
        let many = image(&many.into()).into_string();
        assert!(many.contains("and 19800 more") && many.contains("a00000") && many.len() < 100_000);
        assert!(image(&json!(7)).into_string().contains("Not an item"));
        assert!(image(&Value::Null).into_string().contains("None"));
    }
}

//! Differences of two items of nearly 400 KB as JSON, and of the parts of each changed value: what `vzero diff` and the console compute
//! between two requests.

use std::time::Instant;

use item_diff::{
    change::{Changes, Kind},
    detail::Detail,
};
use serde_json::{Value, json};
use shared::domain::{AttributeValue, Item, attributes};

use crate::{
    error::BenchError,
    figure::{Figure, Target, millis},
    harness::Bench,
};

/// Maximum time in milliseconds. The search for the fewest changes of a list or a text ends after 50 ms.
const MAX_TIME: f64 = 150.0;

/// Name of a shape, its number of elements, and the attributes that have these elements.
type Shape = (&'static str, u64, fn(Vec<Value>) -> Value);

const SHAPES: [Shape; 3] = [
    ("attributes", 5_700, |elements| {
        let named = elements
            .into_iter()
            .map(|element| (element["Note"].to_string(), element));
        named.collect()
    }),
    ("list", 6_200, |elements| json!({ "List": elements })),
    ("text", 5_300, |elements| {
        let lines: Vec<_> = elements.iter().map(Value::to_string).collect();
        json!({ "Text": lines.join("\n") })
    }),
];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (name, count, shape) in SHAPES {
        let from = item(shape((0..count).map(|number| element(number, 0)).collect()))?;
        // Few elements are missing, so that the others have other indexes.
        let is_kept = |number: &u64| number % 1_000 != 1;
        let tenth = (0..count)
            .filter(is_kept)
            .map(|number| element(number, u64::from(number % 10 == 0)));
        let others = (count..2 * count).map(|number| element(number, 0));
        for (share, to) in [("a tenth differs", tenth.collect()), ("all differs", others.collect())] {
            let to = item(shape(to))?;
            let times: Vec<_> = (0..bench.size(11, 1)).map(|_| time(&from, &to)).collect();
            let figure = Figure::of_several(format!("ms, two items of 400 KB, {name}, {share}"), &times);
            figures.push(figure.with_target(Target::AtMost(MAX_TIME)));
        }
    }
    Ok(figures)
}

fn element(number: u64, more: u64) -> Value {
    json!({"Number": format!("{number:035}"), "Price": number + more, "Note": number.to_string()})
}

fn item(json: Value) -> Result<Item, BenchError> {
    match attributes::from_json(json) {
        Ok(AttributeValue::M(attributes)) => Ok(attributes.into()),
        _ => Err(BenchError::Failed("an item of the diff is invalid".to_owned())),
    }
}

/// Returns the time in milliseconds in which the changes, their JSON and the parts of each changed value are found.
fn time(from: &Item, to: &Item) -> f64 {
    let started = Instant::now();
    let changes = Changes::between(Some(from), Some(to));
    let json = Value::Object(changes.to_json()).to_string();
    let details = changes.changes.iter().filter_map(|change| match &change.kind {
        Kind::Changed(from, to) => Some(Detail::of(from, to)),
        _ => None,
    });
    std::hint::black_box((json, details.collect::<Vec<_>>()));
    millis(started.elapsed())
}

#[cfg(test)]
mod tests {
    use shared::domain::size;

    use super::*;

    #[test]
    fn items_have_nearly_400_kb() {
        for (name, count, shape) in SHAPES {
            let elements = (count..2 * count).map(|number| element(number, 0));
            let bytes = size::of_item(&item(shape(elements.collect())).unwrap());
            assert!((380_000..size::MAX_ITEM_BYTES).contains(&bytes), "{name}: {bytes}");
        }
    }
}

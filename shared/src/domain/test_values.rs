//! Values for tests.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    AttributeValue, Item,
    attached::{
        AttachedTable,
        definition::{AttachedSettings, KeyAttribute, KeyType},
    },
    keys::VersionDigits,
    version::Version,
    version_item::VersionItem,
};

/// Returns the item in `DynamoDB` JSON.
pub(crate) fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

pub(crate) fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

/// Returns the version item of an image of a latest item.
pub(crate) fn version_item(image: Value) -> VersionItem {
    VersionItem::from_image(item(image), VersionDigits::default()).unwrap()
}

/// Returns the names of an item's attributes, sorted.
pub(crate) fn names(item: &Item) -> Vec<&str> {
    let mut names: Vec<_> = item.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// Returns a value with this number of levels, in `DynamoDB` JSON.
pub(crate) fn nested(levels: usize) -> Value {
    (1..levels).fold(json!({"S": "x"}), |inner, _| json!({"L": [inner]}))
}

/// Returns bytes that do not compress.
pub(crate) fn random(bytes: usize) -> AttributeValue {
    let mut random = fastrand::Rng::with_seed(7);
    AttributeValue::B(std::iter::repeat_with(|| random.u8(..)).take(bytes).collect())
}

/// Returns the attached table `Orders` with these keys, the attributes `rev`, `by`, `why` and `job`, and the ignored attribute `seen`.
pub(crate) fn orders(keys: &[(&str, KeyType)]) -> AttachedTable {
    let settings = AttachedSettings {
        table: "Orders".to_owned(),
        version_attribute: Some("rev".to_owned()),
        actor_attribute: Some("by".to_owned()),
        reason_attribute: Some("why".to_owned()),
        change_set_attribute: Some("job".to_owned()),
        ignored: ["seen".to_owned()].into(),
        ..AttachedSettings::default()
    };
    let keys = keys.iter().map(|(name, kind)| KeyAttribute::new(*name, *kind));
    AttachedTable::new(settings, keys.collect()).unwrap()
}

pub(crate) fn any_value() -> impl Strategy<Value = AttributeValue> {
    let number = "-?[1-9][0-9]{0,20}(\\.[0-9]{0,10}[1-9])?";
    let bytes = || prop::collection::vec(any::<u8>(), 0..6);
    let leaf = prop_oneof![
        "\\PC{0,6}".prop_map(AttributeValue::S),
        number.prop_map(AttributeValue::N),
        any::<bool>().prop_map(AttributeValue::Bool),
        Just(AttributeValue::Null(true)),
        bytes().prop_map(AttributeValue::B),
        prop::collection::btree_set("\\PC{1,4}", 1..3).prop_map(|set| AttributeValue::Ss(set.into_iter().collect())),
        prop::collection::btree_set(number, 1..3).prop_map(|set| AttributeValue::Ns(set.into_iter().collect())),
        prop::collection::btree_set(bytes(), 1..3).prop_map(|set| AttributeValue::Bs(set.into_iter().collect())),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(AttributeValue::L),
            prop::collection::hash_map("\\$?[a-z]{0,7}", inner, 0..3).prop_map(AttributeValue::M),
        ]
    })
}

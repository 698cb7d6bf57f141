use proptest::prelude::*;

use super::*;

/// Number of documents that are edited.
const SEEDS: u64 = 20_000;

fn item(json: Value) -> Item {
    let AttributeValue::M(members) = plain::from_json(json).unwrap() else {
        panic!("no object")
    };
    Item::from(members)
}

fn texts(from: &Item, to: &Item) -> Vec<String> {
    let changes = Changes::between(Some(from), Some(to));
    changes
        .changes
        .iter()
        .map(|change| {
            let json = change.to_json();
            let part = |name: &str| {
                json.get(name)
                    .map(|value| format!(" {name}={value}"))
                    .unwrap_or_default()
            };
            format!(
                "{} {}{}{}{}",
                change.kind(),
                change.path,
                part("FromPath"),
                part("From"),
                part("To")
            )
        })
        .collect()
}

fn assert_applies(from: &Item, to: &Item) -> usize {
    let changes = Changes::between(Some(from), Some(to)).changes;
    let mut item = from.clone();
    for change in &changes {
        assert_eq!(change.apply(&mut item), Some(()), "{change:?}");
    }
    assert!(
        shared::domain::attributes::same_item(&item, to),
        "{changes:?}\n{item:?}\n{to:?}"
    );
    changes.len()
}

#[test]
fn lists_are_aligned() {
    let lines = |numbers: &[u32]| {
        numbers
            .iter()
            .map(|n| json!({"sku": format!("s{n}"), "qty": 1, "price": n * 10}))
            .collect::<Value>()
    };
    for (from, to, expected) in [
        (
            lines(&[1, 2, 3]),
            lines(&[9, 1, 2, 3]),
            vec!["added L[0] To={\"price\":90,\"qty\":1,\"sku\":\"s9\"}"],
        ),
        (
            lines(&[1, 2, 3]),
            lines(&[2, 3, 1]),
            vec!["moved L[2] FromPath=\"L[0]\""],
        ),
        (json!([1, 2, 3]), json!([1, 5, 3]), vec!["changed L[1] From=2 To=5"]),
        (json!([1, 1]), json!([5, 1]), vec!["changed L[0] From=1 To=5"]),
        (
            json!([{"id": 1, "a": 1, "b": 2}, {"id": 2, "a": 1, "b": 5}]),
            json!([{"id": 2, "a": 1, "b": 5}, {"id": 1, "a": 7, "b": 9}]),
            vec![
                "moved L[1] FromPath=\"L[0]\"",
                "changed L[1].a From=1 To=7",
                "changed L[1].b From=2 To=9",
            ],
        ),
        (
            json!([{"a": 1, "b": 2}]),
            json!([{"a": 1, "b": 3}]),
            vec!["changed L[0].b From=2 To=3"],
        ),
        // The first identity that matches counts.
        (
            json!([{"id": 1, "name": "x", "q": 1}]),
            json!([{"id": 1, "name": "y", "q": 1}, {"id": 2, "name": "x", "q": 1}]),
            vec![
                "added L[1] To={\"id\":2,\"name\":\"x\",\"q\":1}",
                "changed L[0].name From=\"x\" To=\"y\"",
            ],
        ),
        // Nothing is equal.
        (json!([1, 2]), json!([3, 4]), vec!["changed L From=[1,2] To=[3,4]"]),
        (json!([1]), json!([1.0]), vec![]),
        (json!(248), json!("5"), vec!["changed L From=248 To=\"5\""]),
    ] {
        let (from, to) = (item(json!({"L": from, "Z": 1})), item(json!({"L": to, "Z": 1})));
        assert_eq!(texts(&from, &to), expected);
        assert_applies(&from, &to);
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![(0..4).prop_map(|n: i32| json!(n)), "[a-c]".prop_map(|text| json!(text))];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(prop_oneof![Just("id"), Just("a"), Just("b"), Just("c")], inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// Edits one place of a value.
fn edit(value: &mut Value, random: &mut fastrand::Rng, fresh: &mut u64) {
    *fresh += 1;
    let new = match random.u8(..3) {
        0 => json!(random.u8(..4)),
        1 => json!(format!("new {fresh}")),
        _ => json!({"id": *fresh, "a": random.u8(..3), "b": "x"}),
    };
    match value {
        Value::Array(list) if !list.is_empty() => {
            let at = random.usize(..list.len());
            match random.u8(..5) {
                0 => drop(list.remove(at)),
                1 => list.insert(at, new),
                2 => {
                    let element = list.remove(at);
                    list.insert(random.usize(..=list.len()), element);
                }
                3 => {
                    let copy = list[at].clone();
                    list.insert(random.usize(..=list.len()), copy);
                }
                _ => edit(&mut list[at], random, fresh),
            }
        }
        Value::Array(list) => list.push(new),
        Value::Object(map) if !map.is_empty() => {
            let name = map.keys().nth(random.usize(..map.len())).unwrap().clone();
            match random.u8(..6) {
                0 if map.len() > 2 => drop(map.remove(&name)),
                1 => drop(map.insert(format!("n{fresh}"), new)),
                _ => edit(map.get_mut(&name).unwrap(), random, fresh),
            }
        }
        scalar => {
            *scalar = match random.bool() {
                true => json!(random.u8(..4)),
                false => json!(format!("t{fresh}")),
            }
        }
    }
}

#[test]
fn there_are_at_most_as_many_changes_as_edits() {
    let mut fresh = 0;
    for seed in 0..SEEDS {
        let mut random = fastrand::Rng::with_seed(seed);
        let element = |random: &mut fastrand::Rng| {
            let (id, a, b, d) = (random.u8(..6), random.u8(..2), random.u8(..3), random.u8(..2));
            json!({"id": id, "a": a, "b": ["x", b], "c": {"d": d, "e": 1}})
        };
        let list: Vec<_> = (0..random.usize(1..8)).map(|_| element(&mut random)).collect();
        let plain: Vec<_> = (0..random.usize(1..8)).map(|_| json!(random.u8(..3))).collect();
        let old = json!({"L": list, "P": plain, "M": {"x": 1, "y": [1, [2, 3], 4], "z": {"q": 1}}});
        let mut new = old.clone();
        let edits = random.usize(1..5);
        for _ in 0..edits {
            edit(&mut new, &mut random, &mut fresh);
        }
        let (from, to) = (item(old.clone()), item(new.clone()));
        let changes = assert_applies(&from, &to);
        assert!(
            changes <= edits,
            "seed {seed}: {edits} edits\n{old}\n{new}\n{:#?}",
            texts(&from, &to)
        );
    }
}

proptest! {
    #[test]
    fn the_changes_of_two_items_give_the_second(from in value(), to in value()) {
        let (from, to) = (item(json!({"A": from})), item(json!({"A": to})));
        assert_applies(&from, &to);
    }

    #[test]
    fn the_text_of_a_path_is_this_path(
        first in ".{0,5}",
        steps in prop::collection::vec(prop_oneof![".{1,6}".prop_map(Step::Name), (0..100usize).prop_map(Step::Index)], 0..4),
    ) {
        let path = Path([vec![Step::Name(first)], steps].concat());
        prop_assert_eq!(path.to_string().parse::<Path>(), Ok(path));
    }
}

#[test]
fn lists_of_10_000_elements_and_hostile_shapes_are_compared_in_bounded_time() {
    let list =
        |value: &dyn Fn(usize) -> Value| item(json!({"L": (0..10_000).map(value).collect::<Value>(), "Same": 1}));
    let map = |id: usize| json!({"id": id, "a": 1, "b": "x"});
    let mut random = fastrand::Rng::with_seed(7);
    let mut order: Vec<_> = (0..10_000).collect();
    random.shuffle(&mut order);
    let ternary: Vec<Vec<u8>> = (0..2).map(|_| (0..10_000).map(|_| random.u8(..3)).collect()).collect();
    let deep = |leaf: usize| item(json!({"L": (0..30).fold(json!(leaf), |inner, _| json!([inner, 1, 1]))}));
    let wide = |shift: usize| {
        let map = |index: usize| {
            (0..100)
                .map(|name| (format!("n{name}"), json!((name * index) % (7 + shift))))
                .collect::<Value>()
        };
        item(json!({"L": (0..400).map(map).collect::<Value>()}))
    };
    for (name, from, to, most) in [
        ("equal", list(&map), list(&map), 0),
        ("inserted", list(&map), list(&|id| map(id.wrapping_sub(1))), 2),
        (
            "changed",
            list(&map),
            list(&|id| json!({"id": id, "a": id % 7, "b": "x"})),
            10_000,
        ),
        ("shuffled", list(&map), list(&|id| map(order[id])), 1),
        ("others", list(&map), list(&|id| map(id + 10_000)), 10_000),
        ("scalars", list(&|id| json!(id)), list(&|id| json!(id + 10_000)), 10_000),
        (
            "few values",
            list(&|id| json!(ternary[0][id])),
            list(&|id| json!(ternary[1][id])),
            10_000,
        ),
        (
            "few changed",
            list(&|id| json!(ternary[0][id])),
            list(&|id| json!(ternary[usize::from(id < 1_500)][id])),
            2_000,
        ),
        ("deep", deep(1), deep(2), 1),
        ("wide", wide(0), wide(1), 40_000),
    ] {
        let start = std::time::Instant::now();
        let changes = Changes::between(Some(&from), Some(&to));
        let (time, count) = (start.elapsed(), changes.changes.len());
        assert!(count <= most, "{name}: {count}");
        let is_coarse = ["shuffled", "others", "few values", "few changed", "wide"].contains(&name);
        assert_eq!(!changes.coarse.is_empty(), is_coarse, "{name}");
        // A comparison takes at most 40 ms with optimization, 400 ms without. The limit is for a busy machine.
        assert!(time.as_secs() < 10, "{name}: {time:?}");
        assert_applies(&from, &to);
    }
}

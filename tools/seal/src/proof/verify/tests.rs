//! A log of some versions, the proof of one entity, and everything that can be changed in it.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use shared::domain::{Item, attributes::item_from_dynamodb_json};

use super::*;
use crate::{
    format::{commitment::MemberKey, member::members},
    log::{
        growth::Edge,
        proof::Plan,
        reader::LogError,
        tile::{self, Tile},
        tree,
    },
    proof::{
        document::{Digits, Disclosed},
        in_log::{InLogError, Search},
        value::ShownValue,
    },
};

const TABLE: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/VersionControl";
const ENTITY: &str = "Press#12";
const VERSIONS: u64 = 4;

fn pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[3; 32]).unwrap()
}

fn verifier() -> VerifierKey {
    VerifierKey::new("example.com/log", pair().public_key().as_ref().try_into().unwrap()).unwrap()
}

fn key(entity: &str, path: &Path) -> MemberKey {
    // A key of its own for each entity and path, as random bytes would be.
    let key = tree::leaf_hash(&[entity.as_bytes(), &path.bytes().unwrap()].concat());
    MemberKey(key)
}

fn item(version: u64) -> Item {
    let text = format!(
        r#"{{"State": {{"S": "state {version}"}}, "Price": {{"N": "{version}.5"}}, "Tags": {{"SS": ["b", "a"]}},
            "Place": {{"M": {{"Hall": {{"S": "H{version}"}}, "Empty": {{"M": {{}}}}, "Rows": {{"L": [{{"M": {{"n": {{"N": "1e2"}}}}}}]}}}}}}}}"#
    );
    item_from_dynamodb_json(&text).unwrap()
}

fn metadata(entity: &str, version: u64) -> Item {
    let all = [
        ("Table", AttributeValue::S(TABLE.to_owned())),
        ("Entity", AttributeValue::S(entity.to_owned())),
        ("Version", AttributeValue::N(version.to_string())),
        ("Actor", AttributeValue::S("amy".to_owned())),
    ];
    HashMap::from(all.map(|(name, value)| (name.to_owned(), value))).into()
}

fn disclosed(entity: &str, version: u64) -> Vec<Disclosed> {
    let (item, metadata) = (item(version), metadata(entity, version));
    let all = [
        members(Namespace::Attribute, &item),
        members(Namespace::Metadata, &metadata),
    ]
    .concat();
    let member = |(path, value): (Path, &AttributeValue)| {
        let salt = key(entity, &path).salt(TABLE, version);
        Disclosed::new(path, salt, ShownValue(value.clone()))
    };
    all.into_iter().map(member).collect()
}

fn leaf(entity: &str, version: u64) -> Leaf {
    let commitments = disclosed(entity, version).into_iter();
    let commitments = commitments.map(|member| hash_of(&member).0);
    Leaf {
        kind: Kind::Version,
        tag: entity_tag(&[5; 32], TABLE, entity).unwrap(),
        version,
        content: content_root(commitments.collect()),
    }
}

/// Returns a proof of all versions of [`ENTITY`] in a log that has those of another entity between them.
fn document() -> Document {
    document_of(&all_leaves())
}

fn document_of(all: &[Leaf]) -> Document {
    let entries: Vec<Vec<u8>> = all.iter().map(|leaf| leaf.bytes().to_vec()).collect();
    let mut edge = Edge::default();
    let stored: BTreeMap<Tile, Vec<Hash>> = edge
        .append(&entries)
        .unwrap()
        .into_iter()
        .filter_map(|(tile, bytes)| Some((tile, tile::hashes(tile, &bytes)?)))
        .collect();
    let checkpoint = Checkpoint {
        origin: "example.com/log".to_owned(),
        size: edge.size(),
        root: edge.root(),
    };
    let text = checkpoint.text();
    let own = (0..).zip(all).filter(|(_, one)| one.tag == leaf(ENTITY, 1).tag);
    let leaves = own.map(|(index, &Leaf { kind, version, .. })| {
        let inclusion = Plan::inclusion(edge.size(), index).unwrap().hashes(&stored).unwrap();
        ProvenLeaf {
            kind,
            version,
            index,
            inclusion: inclusion.into_iter().map(Digits).collect(),
            disclosed: disclosed(ENTITY, version),
            withheld: Vec::new(),
        }
    });
    let note = verifier().note(&text, pair().sign(text.as_bytes()).as_ref());
    Document::new(note, TABLE.to_owned(), ENTITY.to_owned(), [5; 32], leaves.collect())
}

fn hash_of(member: &Disclosed) -> Digits {
    Digits(commitment(&member.salt.0, &member.path().unwrap(), &member.value.0).unwrap())
}

/// Withholds one member of each leaf.
fn withhold(mut document: Document, member: usize) -> Document {
    for leaf in &mut document.leaves {
        leaf.withheld.push(hash_of(&leaf.disclosed.remove(member)));
    }
    document
}

/// Returns the entries of the log of [`document`].
fn all_leaves() -> Vec<Leaf> {
    let of_version = |version| [leaf(ENTITY, version), leaf("Other", version)];
    (1..=VERSIONS).flat_map(of_version).collect()
}

/// Writes the log of [`document`].
fn write_log(folder: &std::path::Path) {
    let entries: Vec<_> = all_leaves().iter().map(|leaf| leaf.bytes().to_vec()).collect();
    for (tile, bytes) in Edge::default().append(&entries).unwrap() {
        let path = folder.join(tile.to_string());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    std::fs::write(folder.join("checkpoint"), document().checkpoint).unwrap();
}

#[test]
fn the_whole_log_shows_later_versions_and_those_that_were_sealed_twice() {
    let document = document();
    let proven = document.verify(&verifier()).unwrap();
    let find_with = |leaves: &[Leaf], last: Option<&[u8]>| {
        let mut entries: Vec<_> = leaves.iter().map(|leaf| leaf.bytes().to_vec()).collect();
        entries.extend(last.map(<[u8]>::to_vec));
        let checkpoint = Checkpoint {
            origin: "example.com/log".to_owned(),
            size: entries.len() as u64,
            root: tree::root(entries.iter().map(|entry| tree::leaf_hash(entry))),
        };
        let mut search = Search::new(&document, &proven, checkpoint)?;
        (0..).zip(&entries).for_each(|(index, entry)| search.add(index, entry));
        search.end()
    };
    let find = |leaves: &[Leaf]| find_with(leaves, None);
    let mut leaves = all_leaves();
    assert_eq!(find(&leaves).unwrap().versions, (4, 4));
    assert_eq!(find_with(&leaves, Some(b"x")), Err(InLogError::Leaf(8)));
    leaves.extend([leaf("Other", 2), leaf(ENTITY, 5)]);
    let found = find(&leaves).unwrap();
    assert_eq!((found.versions, found.checkpoint.size), ((5, 5), 10));
    let (again, content) = (leaf(ENTITY, 2), [1; 32]);
    leaves.extend([Leaf { content, ..again }, leaf("Other", 3)]);
    assert!(matches!(
        find(&leaves),
        Err(InLogError::Twice {
            version: 2,
            first: 2,
            second: 10
        })
    ));
    // After a purge, the entity begins again.
    for (entity, purged) in [("Other", None), (ENTITY, Some(((1, 2), 1)))] {
        let kind = Kind::Purge;
        leaves.insert(
            10,
            Leaf {
                kind,
                ..leaf(entity, 1)
            },
        );
        assert_eq!(find(&leaves).ok().map(|found| (found.versions, found.purges)), purged);
        leaves.remove(10);
    }
    leaves.swap(0, 1);
    assert!(matches!(find(&leaves), Err(InLogError::Log(LogError::Root(8)))));
    assert!(matches!(
        find(&leaves[..7]),
        Err(InLogError::Log(LogError::Truncated { .. }))
    ));
}

fn json(document: &Document) -> String {
    serde_json::to_string(document).unwrap()
}

/// The files that other verifiers are tested with. With `UPDATE_VECTORS=1`, they are written.
#[test]
#[allow(clippy::disallowed_methods, reason = "the environment selects the update")]
fn the_example_is_this_proof() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("example");
    let proof = serde_json::to_string_pretty(&withhold(document(), 4)).unwrap() + "\n";
    let log = folder.join("log");
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        write_log(&log);
    }
    for (name, content) in [("proof.json", proof), ("vkey", format!("{}\n", verifier()))] {
        let file = folder.join(name);
        if std::env::var_os("UPDATE_VECTORS").is_some() {
            std::fs::write(&file, &content).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content, "{name}");
    }
}

#[test]
fn an_honest_proof_holds_with_any_member_withheld() {
    let whole = document();
    let shown = whole.leaves[0].disclosed.len();
    let all = (1..=VERSIONS).collect();
    let proven = whole.verify(&verifier()).unwrap();
    assert_eq!((proven.versions, proven.members), (all, (4 * shown, 0)));
    assert_eq!(proven.checkpoint.size, 2 * VERSIONS);
    for member in 0..shown {
        let document = withhold(whole.clone(), member);
        let read = Document::parse(&json(&document)).unwrap();
        assert_eq!(json(&read), json(&document));
        assert_eq!(read.verify(&verifier()).unwrap().members, (4 * (shown - 1), 4));
    }
}

#[test]
fn changed_proofs_are_refused_with_the_reason() {
    type Change = fn(&mut Document);
    let cases: [(Change, VerifyError); 15] = [
        (
            |proof| proof.leaves[1].disclosed[4].value = ShownValue(AttributeValue::S("state 9".to_owned())),
            VerifyError::Leaf(2),
        ),
        (
            |proof| proof.leaves[1].disclosed[4].salt.0[0] ^= 1,
            VerifyError::Leaf(2),
        ),
        (|proof| drop(proof.leaves[1].disclosed.remove(0)), VerifyError::Leaf(2)),
        (
            |proof| proof.leaves[1].withheld.push(Digits([1; 32])),
            VerifyError::Leaf(2),
        ),
        (
            |proof| proof.leaves[1].disclosed = proof.leaves[2].disclosed.clone(),
            VerifyError::Metadata(2),
        ),
        (|proof| proof.leaves[1].version = 9, VerifyError::Metadata(2)),
        (|proof| proof.entity = "Other".to_owned(), VerifyError::Metadata(0)),
        (|proof| proof.table += "2", VerifyError::Metadata(0)),
        (|proof| proof.entity_key.0[0] ^= 1, VerifyError::Leaf(0)),
        (|proof| proof.leaves[1].kind = Kind::Erase, VerifyError::Leaf(2)),
        (|proof| proof.leaves[1].index = 3, VerifyError::Leaf(3)),
        (|proof| proof.leaves.swap(1, 2), VerifyError::Order(2)),
        (
            |proof| {
                let again = proof.leaves[1].disclosed[0].clone();
                proof.leaves[1].disclosed.insert(0, again);
            },
            VerifyError::Members(2),
        ),
        (|proof| proof.leaves[1].disclosed.swap(0, 1), VerifyError::Members(2)),
        (|proof| proof.leaves.clear(), VerifyError::Empty),
    ];
    for (change, error) in cases {
        let mut document = document();
        change(&mut document);
        assert_eq!(document.verify(&verifier()), Err(error));
    }
}

#[test]
fn values_are_not_moved_to_another_version_without_metadata() {
    let mut document = document();
    for leaf in &mut document.leaves {
        let is_metadata = |member: &Disclosed| member.path().unwrap().namespace == Namespace::Metadata;
        let metadata: Vec<_> = leaf.disclosed.extract_if(.., |member| is_metadata(member)).collect();
        let hashes: BTreeSet<_> = metadata.iter().map(hash_of).collect();
        leaf.withheld = hashes.into_iter().collect();
    }
    assert!(document.verify(&verifier()).is_ok());
    let mut unsorted = document.clone();
    unsorted.leaves[0].withheld.reverse();
    assert_eq!(unsorted.verify(&verifier()), Err(VerifyError::Members(0)));
    let mut moved = document.clone();
    moved.leaves[1].disclosed = document.leaves[2].disclosed.clone();
    assert_eq!(moved.verify(&verifier()), Err(VerifyError::Leaf(2)));
    let mut other = document;
    other.entity = "Other".to_owned();
    assert_eq!(other.verify(&verifier()), Err(VerifyError::Leaf(0)));
}

#[test]
fn a_version_or_a_commitment_that_was_sealed_twice_is_refused() {
    let mut leaves = all_leaves();
    leaves.push(leaf(ENTITY, 2));
    assert_eq!(document_of(&leaves).verify(&verifier()), Err(VerifyError::Order(8)));
    let mut hashes: Vec<_> = disclosed(ENTITY, 1).iter().map(hash_of).collect();
    hashes.push(hashes[0]);
    leaves[0].content = content_root(hashes.iter().map(|hash| hash.0).collect());
    let mut document = document_of(&leaves);
    document.leaves[0].withheld = vec![hashes[0]];
    assert_eq!(document.verify(&verifier()), Err(VerifyError::Members(0)));
}

#[test]
fn members_have_one_place_each_that_is_not_inside_of_another_one() {
    use Namespace::{Attribute, Metadata};
    let member = |namespace, names: &[&str], value| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Disclosed::new(Path { namespace, names }, [1; 32], ShownValue(value))
    };
    let of = |namespace, names: &[&str]| member(namespace, names, AttributeValue::Bool(true));
    let map = AttributeValue::M([("b".to_owned(), AttributeValue::Bool(true))].into());
    let mut document = document();
    for (members, error) in [
        (
            vec![of(Attribute, &["a"]), of(Attribute, &["a", "b"])],
            VerifyError::Members(0),
        ),
        (vec![member(Attribute, &["a"], map)], VerifyError::Members(0)),
        (vec![of(Metadata, &["Table", "x"])], VerifyError::Metadata(0)),
        (vec![of(Attribute, &[])], VerifyError::Members(0)),
        // An attribute can have the name of metadata: this is only no member of the leaf.
        (
            vec![of(Attribute, &["Actor"]), of(Metadata, &["Actor"])],
            VerifyError::Leaf(0),
        ),
    ] {
        document.leaves[0].disclosed = members;
        assert_eq!(document.verify(&verifier()), Err(error));
    }
}

#[test]
fn a_proof_has_one_form_apart_from_white_space() {
    let text = json(&document());
    let pretty = serde_json::to_string_pretty(&document()).unwrap();
    assert!(Document::parse(&pretty).is_ok_and(|document| document.verify(&verifier()).is_ok()));
    for (from, to) in [
        (r#""Version":1,"#, r#""Version":1,"Version":1,"#),
        (r#""Version":1,"#, r#""Version":1.0,"#),
        (r#""Version":1,"#, r#""Version":1,"More":1,"#),
        (r#""S":"amy""#, r#""S":"bob","S":"amy""#),
        (r#""S":"amy""#, r#""S":"\u0061my""#),
        (r#""N":"1.5""#, r#""N":"1.50""#),
        (r#""N":"1.5""#, r#""N":"15e-1""#),
        (r#"["a","b"]"#, r#"["b","a"]"#),
        (r#"["a","b"]"#, r#"["a","b","b"]"#),
        (r#"{"n":{"N":"100"}}"#, r#"{"n":{"N":"7"},"n":{"N":"100"}}"#),
        (r#""Metadata":["Actor"]"#, r#""Attribute":null,"Metadata":["Actor"]"#),
        (r#"["Price"]"#, r#"["Price"],"Metadata":["Actor"]"#),
        ("vzero-proof-1", "vzero-proof-2"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let accepted = Document::parse(&changed).is_ok_and(|document| document.verify(&verifier()).is_ok());
        assert!(!accepted, "{to}");
    }
    for digits in ["0A".repeat(32), "0a".repeat(31), "0a".repeat(33)] {
        assert!(serde_json::from_value::<Digits>(digits.into()).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn no_changed_text_is_accepted(
        place: prop::sample::Index, length in 1_usize..80, byte in 0x20_u8..0x7f, copies in 0_usize..3, withheld in 0_usize..9,
    ) {
        let text = json(&withhold(document(), withheld)).into_bytes();
        let place = place.index(text.len());
        // A part is left out or occurs twice, or a byte is another one.
        let end = if copies == 1 { place + 1 } else { text.len().min(place + length) };
        let part = if copies == 1 { vec![byte] } else { text[place..end].repeat(copies) };
        let changed = [&text[..place], &part, &text[end..]].concat();
        // Strings of other members do not decide anything, so each byte is a part of the proof.
        prop_assume!(changed != text);
        let changed = String::from_utf8(changed).unwrap_or_default();
        let accepted = Document::parse(&changed).is_ok_and(|document| document.verify(&verifier()).is_ok());
        prop_assert!(!accepted, "{place}: {changed}");
    }
}

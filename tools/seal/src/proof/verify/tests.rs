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
    let version = version.to_string();
    let all = [
        ("Table", AttributeValue::S(TABLE.to_owned())),
        ("Entity", AttributeValue::S(entity.to_owned())),
        ("Version", AttributeValue::N(version)),
        ("Actor", AttributeValue::S("amy".to_owned())),
    ];
    Item::from(
        all.map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect::<HashMap<_, _>>(),
    )
}

fn disclosed(entity: &str, version: u64) -> Vec<Disclosed> {
    let (item, metadata) = (item(version), metadata(entity, version));
    let all = [
        members(Namespace::Attribute, &item),
        members(Namespace::Metadata, &metadata),
    ]
    .concat();
    all.into_iter()
        .map(|(path, value)| {
            let salt = key(entity, &path).salt(TABLE, version);
            Disclosed::new(path, salt, ShownValue(value.clone()))
        })
        .collect()
}

fn leaf(entity: &str, version: u64) -> Leaf {
    let commitments = disclosed(entity, version)
        .into_iter()
        .map(|member| commitment(&member.salt.0, &member.path().unwrap(), &member.value.0).unwrap());
    Leaf {
        kind: Kind::Version,
        tag: entity_tag(&[5; 32], TABLE, entity).unwrap(),
        version,
        content: content_root(commitments.collect()),
    }
}

/// Returns a proof of all versions of [`ENTITY`] in a log that has those of another entity between them.
fn document() -> Document {
    let entries: Vec<Vec<u8>> = all_leaves().iter().map(|leaf| leaf.bytes().to_vec()).collect();
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
    let leaves = (1..=VERSIONS).map(|version| {
        let index = 2 * (version - 1);
        let inclusion = Plan::inclusion(edge.size(), index).unwrap().hashes(&stored).unwrap();
        ProvenLeaf {
            kind: Kind::Version,
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

/// Withholds one member of each leaf.
fn withhold(mut document: Document, member: usize) -> Document {
    for leaf in &mut document.leaves {
        let member = leaf.disclosed.remove(member);
        let hash = commitment(&member.salt.0, &member.path().unwrap(), &member.value.0).unwrap();
        leaf.withheld.push(Digits(hash));
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
    let find = |leaves: &[Leaf]| {
        let checkpoint = Checkpoint {
            origin: "example.com/log".to_owned(),
            size: leaves.len() as u64,
            root: tree::root(leaves.iter().map(|leaf| tree::leaf_hash(&leaf.bytes()))),
        };
        let mut search = Search::new(&document, &proven, checkpoint)?;
        for (index, leaf) in (0..).zip(leaves) {
            search.add(index, &leaf.bytes());
        }
        search.end()
    };
    let mut leaves = all_leaves();
    assert_eq!(find(&leaves).unwrap().versions, (4, 4));
    leaves.extend([leaf("Other", 2), leaf(ENTITY, 5)]);
    let found = find(&leaves).unwrap();
    assert_eq!((found.versions, found.checkpoint.size), ((5, 5), 10));
    leaves.push(Leaf {
        content: [1; 32],
        ..leaf(ENTITY, 2)
    });
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
        leaf.disclosed
            .retain(|member| member.path().unwrap().namespace == Namespace::Attribute);
        let metadata = disclosed(ENTITY, leaf.version).into_iter().filter_map(|member| {
            let path = member.path().unwrap();
            (path.namespace == Namespace::Metadata)
                .then(|| Digits(commitment(&member.salt.0, &path, &member.value.0).unwrap()))
        });
        leaf.withheld = metadata.collect::<BTreeSet<_>>().into_iter().collect();
    }
    assert!(document.verify(&verifier()).is_ok());
    let mut moved = document.clone();
    moved.leaves[1].disclosed = document.leaves[2].disclosed.clone();
    assert_eq!(moved.verify(&verifier()), Err(VerifyError::Leaf(2)));
    let mut other = document;
    other.entity = "Other".to_owned();
    assert_eq!(other.verify(&verifier()), Err(VerifyError::Leaf(0)));
}

/// A map that is not split into its members.
fn map_member(path: Path) -> Disclosed {
    let map = [("b".to_owned(), AttributeValue::Bool(true))].into_iter().collect();
    Disclosed::new(path, [1; 32], ShownValue(AttributeValue::M(map)))
}

/// Metadata of two names, which none has.
fn map_path() -> Disclosed {
    let names = vec!["Table".to_owned(), "x".to_owned()];
    let path = Path {
        namespace: Namespace::Metadata,
        names,
    };
    Disclosed::new(path, [1; 32], ShownValue(AttributeValue::Bool(true)))
}

#[test]
fn a_member_inside_of_another_one_is_refused() {
    let path = |names: &[&str]| Path {
        namespace: Namespace::Attribute,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let member = |names: &[&str]| Disclosed::new(path(names), [1; 32], ShownValue(AttributeValue::Bool(true)));
    let mut document = document();
    document.leaves[0].disclosed = vec![member(&["a"]), member(&["a", "b"])];
    assert_eq!(document.verify(&verifier()), Err(VerifyError::Members(0)));
    let (whole, metadata) = (map_member(path(&["a"])), map_path());
    document.leaves[0].disclosed = vec![whole];
    assert_eq!(document.verify(&verifier()), Err(VerifyError::Members(0)));
    document.leaves[0].disclosed = vec![metadata];
    assert_eq!(document.verify(&verifier()), Err(VerifyError::Metadata(0)));
    document.leaves[0].disclosed = vec![member(&[])];
    assert_eq!(document.verify(&verifier()), Err(VerifyError::Members(0)));
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
        ("vzero-proof-1", "vzero-proof-2"),
        ("05050505", "0505050A"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let accepted = Document::parse(&changed).is_ok_and(|document| document.verify(&verifier()).is_ok());
        assert!(!accepted, "{to}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn no_changed_byte_is_accepted(position: prop::sample::Index, replacement in 0x20_u8..0x7f, withheld in 0_usize..9) {
        let text = json(&withhold(document(), withheld));
        let position = position.index(text.len());
        let mut bytes = text.clone().into_bytes();
        // Strings of other members do not decide anything, so each byte is a part of the proof.
        prop_assume!(bytes[position] != replacement && !(replacement == b' ' && bytes[position].is_ascii_whitespace()));
        bytes[position] = replacement;
        let changed = String::from_utf8(bytes).unwrap_or_default();
        let accepted = Document::parse(&changed).is_ok_and(|document| document.verify(&verifier()).is_ok());
        prop_assert!(!accepted, "{position}: {changed}");
    }
}

//! Documents of proofs.

use std::{collections::BTreeMap, sync::LazyLock};

use seal::{
    Hash,
    format::{
        canonical::canonical,
        commitment::{commitment, content_root},
        leaf::{Leaf, entity_tag},
    },
    log::{
        checkpoint::Checkpoint,
        growth::Edge,
        proof::Plan,
        tile::{Tile, hashes},
    },
    proof::{
        document::{Digits, Disclosed, Document, ProvenLeaf},
        value::ShownValue,
        verify::VerifyError,
    },
};
use serde_json::json;
use shared::domain::AttributeValue;

use crate::checkpoint::{KEY, ORIGIN, sign};

/// The proof of `tools/seal/example` without withheld members: nothing else was sealed in its log.
static WHOLE: LazyLock<Document> = LazyLock::new(|| {
    let text = include_str!("../../fuzz/corpus/proof/whole");
    Document::parse(text).unwrap_or_else(|error| panic!("{error}"))
});

/// Parses the input as a proof. If it holds, it must show what was sealed. Its leaves, sealed in another log, must be proven by what
/// they show, and by nothing else.
pub fn proof(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(document) = Document::parse(text) else { return };
    assert!(Document::parse(&json!(document).to_string()).as_ref() == Ok(&document));
    if document.verify(&KEY).is_ok() {
        check_sealed(&document);
    }
    check_values(&document);
    let Some(sealed) = seal(document) else { return };
    assert!(Document::parse(&json!(sealed).to_string()).as_ref() == Ok(&sealed));
    match sealed.verify(&KEY) {
        Ok(_) => check_changes(&sealed),
        Err(error) => {
            let is_form = !matches!(error, VerifyError::Checkpoint(_) | VerifyError::Leaf(_));
            assert!(is_form, "an honest proof is rejected: {error}");
        }
    }
}

fn check_sealed(document: &Document) {
    let entity = |proof: &Document| (proof.table.clone(), proof.entity.clone(), proof.entity_key);
    assert!(entity(document) == entity(&WHOLE), "another entity");
    for leaf in &document.leaves {
        let place = |leaf: &ProvenLeaf| (leaf.kind, leaf.version, leaf.index);
        let sealed = WHOLE.leaves.iter().find(|sealed| place(sealed) == place(leaf));
        let is_sealed =
            sealed.is_some_and(|sealed| leaf.disclosed.iter().all(|shown| sealed.disclosed.contains(shown)));
        assert!(is_sealed, "a proof shows what was not sealed");
    }
}

/// Values that are shown differently must have different bytes.
fn check_values(document: &Document) {
    let mut texts = BTreeMap::new();
    for member in document.leaves.iter().flat_map(|leaf| &leaf.disclosed) {
        if let Ok(bytes) = canonical(&member.value.0) {
            let text = json!(member.value).to_string();
            let same = texts.entry(bytes).or_insert_with(|| text.clone());
            assert!(*same == text, "two texts of one value");
        }
    }
}

fn hidden(member: &Disclosed) -> Option<Hash> {
    commitment(&member.salt.0, &member.path()?, &member.value.0).ok()
}

/// Seals the leaves of a document in a log of their own. `None` if a value has no bytes.
fn seal(mut document: Document) -> Option<Document> {
    let tag = entity_tag(&document.entity_key.0, &document.table, &document.entity).ok()?;
    let entry = |leaf: &ProvenLeaf| {
        let shown = leaf.disclosed.iter().map(hidden);
        let commitments = shown.chain(leaf.withheld.iter().map(|withheld| Some(withheld.0)));
        let content = content_root(commitments.collect::<Option<_>>()?);
        let ProvenLeaf { kind, version, .. } = *leaf;
        let leaf = Leaf {
            kind,
            tag,
            version,
            content,
        };
        Some(leaf.bytes().to_vec())
    };
    let entries: Vec<_> = document.leaves.iter().map(entry).collect::<Option<_>>()?;
    let mut edge = Edge::default();
    let tiles = edge.append(&entries).ok()?.into_iter();
    let tiles: BTreeMap<Tile, _> = tiles
        .filter_map(|(tile, bytes)| Some((tile, hashes(tile, &bytes)?)))
        .collect();
    for (index, leaf) in (0..).zip(&mut document.leaves) {
        let inclusion = Plan::inclusion(edge.size(), index)?.hashes(&tiles)?;
        leaf.inclusion = inclusion.into_iter().map(Digits).collect();
        leaf.index = index;
    }
    let (origin, size, root) = (ORIGIN.to_owned(), edge.size(), edge.root());
    document.checkpoint = sign(&Checkpoint { origin, size, root }.text());
    Some(document)
}

/// Each member can be withheld, but neither omitted nor changed.
fn check_changes(sealed: &Document) {
    for (position, leaf) in sealed.leaves.iter().enumerate() {
        let verify = |change: &dyn Fn(&mut ProvenLeaf)| {
            let mut changed = sealed.clone();
            change(&mut changed.leaves[position]);
            changed.verify(&KEY)
        };
        let refused = Err(VerifyError::Leaf(leaf.index));
        assert!(verify(&|leaf| leaf.withheld.push(Digits([255; 32]))) == refused);
        for (index, member) in leaf.disclosed.iter().enumerate() {
            let withhold = |leaf: &mut ProvenLeaf| {
                leaf.withheld.extend(hidden(&leaf.disclosed.remove(index)).map(Digits));
                leaf.withheld.sort();
            };
            assert!(verify(&withhold).is_ok(), "a member cannot be withheld");
            assert!(
                verify(&|leaf| drop(leaf.disclosed.remove(index))) == refused,
                "a member is omitted"
            );
            assert!(
                verify(&|leaf| leaf.disclosed[index].salt.0[0] ^= 1) == refused,
                "another salt"
            );
            let value = ShownValue(AttributeValue::S(json!(member.value).to_string()));
            assert!(
                verify(&|leaf| leaf.disclosed[index].value = value.clone()).is_err(),
                "another value"
            );
        }
    }
}

//! 10: Each version is sealed once, a published checkpoint is never contradicted, and erased values are nowhere. Proofs and the audit are
//! checked while the system runs.

use std::collections::{BTreeSet, HashMap};

use seal::{
    Hash,
    format::{
        leaf::{Kind, Leaf, entity_tag},
        member::{Namespace, Path},
    },
    log::{
        checkpoint::Checkpoint,
        note::VerifierKey,
        tile::{Content, Tile, WIDTH, entries},
        tree::{leaf_hash, root},
    },
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::domain::{AttributeValue, Item, attributes, keys::LATEST_KEY};

use super::purge_marker_key;
use crate::{
    evidence::{Evidence, SealedHistory, Violations},
    requests::{is_version_key, text},
    schedule::{Command, SECRET, Schedule, StepKind},
    stream::Written,
};

/// Checks the log of a run, if there is one.
pub(super) fn check(evidence: &Evidence, violations: &mut Violations) {
    let Some(sealed) = &evidence.sealed else { return };
    let mut add = |what: String| violations.add::<10>(what);
    let leaves = published(sealed, &mut add).unwrap_or_default();
    let in_log = versions(&leaves, &mut add);
    erased(evidence, sealed, &mut add);
    // A state that was restored stops sealing.
    if !sealed.is_restored {
        all_versions(sealed, &in_log, &mut add);
        operations(sealed, &leaves, &mut add);
    }
}

/// Reads the log, and compares it with each checkpoint that was ever published, or signed.
fn published(sealed: &SealedHistory, add: &mut impl FnMut(String)) -> Option<Vec<Leaf>> {
    for (path, contents) in &sealed.log {
        let is_changed = contents.iter().any(|content| *content != contents[0]);
        if path != "checkpoint" && is_changed {
            add(format!("{path} was overwritten"));
        }
    }
    let place = sealed.items.of("#vzero").find(|(key, _)| *key == "sealed")?.1;
    let key = VerifierKey::parse(text(place, "/VerifierKey/S")).ok()?;
    let open = |note: &Vec<u8>| Checkpoint::open(&String::from_utf8_lossy(note), &key).ok();
    let all = |name: &str| {
        let of_name = sealed.log.iter().filter(|(path, _)| path.starts_with(name));
        let checkpoints: Option<Vec<_>> = of_name.flat_map(|(_, notes)| notes).map(open).collect();
        checkpoints
    };
    let (Some(checkpoints), Some(signed)) = (all("checkpoint"), sealed.log.get("checkpoint")) else {
        let is_empty = sealed.log.is_empty();
        (!is_empty).then(|| add("a checkpoint is missing, or not signed".to_owned()));
        return None;
    };
    let sizes: Vec<_> = signed
        .iter()
        .filter_map(open)
        .map(|checkpoint| checkpoint.size)
        .collect();
    if !sizes.is_sorted() {
        add(format!("the published log shrinks: {sizes:?}"));
    }
    let size = sizes.last().copied()?;
    let mut leaves = Vec::new();
    for number in 0..size.div_ceil(WIDTH) {
        let tile = Tile::of_tree(Content::Entries, number, size)?;
        let content = sealed.log.get(&tile.to_string()).and_then(|contents| contents.last());
        let read = content.and_then(|content| entries(tile, content));
        let parsed = read.map(|entries| entries.into_iter().map(Leaf::parse).collect::<Result<Vec<_>, _>>());
        let Some(Ok(parsed)) = parsed else {
            add(format!("the published log of {size} entries lacks {tile}"));
            return None;
        };
        leaves.extend(parsed);
    }
    let hashes: Vec<_> = leaves.iter().map(|leaf| leaf_hash(&leaf.bytes())).collect();
    for checkpoint in checkpoints.iter().filter(|checkpoint| checkpoint.size <= size) {
        let prefix = &hashes[..usize::try_from(checkpoint.size).unwrap_or_default()];
        if root(prefix.iter().copied()) != checkpoint.root {
            add(format!("the checkpoint of {} entries is contradicted", checkpoint.size));
        }
    }
    Some(leaves)
}

/// Returns the versions in the log, none of which is there twice, unless its entity was purged in between.
fn versions(leaves: &[Leaf], add: &mut impl FnMut(String)) -> BTreeSet<(Hash, u64)> {
    let mut seen = BTreeSet::new();
    for leaf in leaves {
        match leaf.kind {
            Kind::Version if !seen.insert((leaf.tag, leaf.version)) => {
                add(format!("version {} is sealed twice", leaf.version));
            }
            Kind::Purge => seen.retain(|(tag, _)| *tag != leaf.tag),
            _ => {}
        }
    }
    seen
}

/// The random keys of an entity.
struct Keys {
    entity: String,
    tag: Hash,
    /// Hashes of the paths, and keys.
    members: Vec<u8>,
}

/// Returns the keys of all entities.
fn keys(sealed: &SealedHistory) -> Vec<Keys> {
    let keys = |item: &Value| {
        let item: Item = serde_json::from_value(item.clone()).ok()?;
        let (Some(AttributeValue::B(random)), Some(AttributeValue::B(members))) =
            (item.get("Random"), item.get("Keys"))
        else {
            return None;
        };
        let (table, entity) = (attributes::text(&item, "Table")?, attributes::text(&item, "Entity")?);
        Some(Keys {
            entity: entity.to_owned(),
            tag: entity_tag(random.as_slice().try_into().ok()?, table, entity).ok()?,
            members: members.clone(),
        })
    };
    sealed.keys.iter().filter_map(keys).collect()
}

/// Every version of the table is in the log.
fn all_versions(sealed: &SealedHistory, in_log: &BTreeSet<(Hash, u64)>, add: &mut impl FnMut(String)) {
    let tags: HashMap<_, _> = keys(sealed).into_iter().map(|keys| (keys.entity, keys.tag)).collect();
    for entity in sealed.items.entities() {
        // A version that has expired is not read.
        let versions = sealed
            .items
            .of(entity)
            .filter(|(key, item)| is_version_key(key) && item.get("TTL").is_none());
        for (key, _) in versions {
            let number = key[1..].parse().unwrap_or(0);
            if tags.get(entity).is_none_or(|tag| !in_log.contains(&(*tag, number))) {
                add(format!("{entity} {key} is not sealed"));
            }
        }
    }
}

/// Each operation is in the log once.
fn operations(sealed: &SealedHistory, leaves: &[Leaf], add: &mut impl FnMut(String)) {
    let of = |partition| {
        sealed
            .state
            .iter()
            .filter(|item| text(item, "/PK/S") == partition)
            .count()
    };
    let in_log = leaves.iter().filter(|leaf| leaf.kind != Kind::Version).count();
    if of("pending") > 0 || in_log != of("operations") {
        add(format!(
            "the log has {in_log} of {} and {} operations",
            of("operations"),
            of("pending")
        ));
    }
}

/// The values of erased versions are nowhere, and their key is deleted.
fn erased(evidence: &Evidence, sealed: &SealedHistory, add: &mut impl FnMut(String)) {
    let path = Path {
        namespace: Namespace::Attribute,
        names: vec![SECRET.to_owned()],
    };
    let digest = path.bytes().map(|bytes| Sha256::digest(&bytes));
    let entities: BTreeSet<_> = evidence.stream.iter().map(Written::entity).collect();
    for entity in entities {
        let markers = sealed
            .items
            .of(&purge_marker_key(entity))
            .map(|(_, marker)| marker.clone());
        let entries = markers.filter_map(|marker| Some(marker.get("Erasures")?["M"].as_object()?.clone()));
        let Some(to) = entries
            .flatten()
            .find_map(|(_, entry)| text(&entry, "/M/To/N").parse::<u64>().ok())
        else {
            continue;
        };
        let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
        let latest = evidence
            .stream
            .iter()
            .filter(|written| written.entity() == entity && written.key() == LATEST_KEY);
        for image in latest.map(Written::image) {
            let version: u64 = text(image, "/Latest/N").parse().unwrap_or(0);
            let secret = text(image, &format!("/{SECRET}/S"));
            if !secret.is_empty() {
                (if version <= to { &mut before } else { &mut after }).insert(secret);
            }
        }
        for secret in before.difference(&after) {
            let is_in = |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            let tables = [&sealed.state, &sealed.keys].into_iter().flatten();
            let in_table = sealed
                .items
                .entities()
                .flat_map(|entity| sealed.items.of(entity))
                .map(|(_, item)| item);
            let mut items = in_table.chain(tables).filter(|item| is_in(item.to_string().as_bytes()));
            if let Some(item) = items.next() {
                add(format!(
                    "an erased value is in {} {}",
                    text(item, "/PK/S"),
                    text(item, "/SK/S")
                ));
            }
            let objects = sealed.log.values().flatten().chain(&sealed.staging);
            if objects.into_iter().any(|object| is_in(object)) {
                add("an erased value is in the log".to_owned());
            }
        }
        let is_left = sealed
            .items
            .of(entity)
            .any(|(key, item)| is_version_key(key) && item.get(SECRET).is_some());
        let has_key = |keys: &Keys| {
            let (pairs, _) = keys.members.as_chunks::<64>();
            let is_of = |pair: &[u8; 64]| digest.as_ref().is_ok_and(|digest| pair[..32] == digest[..]);
            keys.entity == entity && pairs.iter().any(is_of)
        };
        if !is_left && keys(sealed).iter().any(has_key) {
            add(format!("{entity} has the key of an erased value"));
        }
    }
}

/// Attributes that an erasure removes from a version, or adds to it: the value, the fingerprint of the update, and the commitment.
const CHANGED: [&str; 3] = [SECRET, "RequestPayload", "Erased"];

/// Removes the attributes that erasures change from the schedule and the evidence of the erased entities. All guarantees hold for the other
/// attributes.
pub(super) fn without_erased(schedule: &Schedule, evidence: &mut Evidence) -> Schedule {
    let mut schedule = schedule.clone();
    let erased: BTreeSet<_> = schedule
        .steps
        .iter()
        .filter_map(|step| match &step.kind {
            StepKind::Command(Command::Erase(entity)) => Some(entity.clone()),
            _ => None,
        })
        .collect();
    let remove = |item: &mut Value, names: &[&str]| {
        if let Some(members) = item.as_object_mut() {
            members.retain(|name, _| !names.contains(&name.as_str()));
        }
    };
    for update in schedule
        .updates
        .iter_mut()
        .filter(|update| erased.contains(&update.entity))
    {
        remove(&mut update.members, &[SECRET]);
    }
    let images = evidence
        .stream
        .iter_mut()
        .filter(|written| erased.contains(written.entity()));
    let images = images.map(|written| &mut written.record["dynamodb"]["NewImage"]);
    let items = [&mut evidence.items, &mut evidence.recovered].into_iter();
    let items = items.flat_map(|items| items.of_entities_mut(&erased));
    for item in images.chain(items) {
        remove(item, &CHANGED);
    }
    for versions in evidence
        .read
        .iter_mut()
        .filter(|(entity, _)| erased.contains(*entity))
        .flat_map(|(_, read)| read)
        .flatten()
    {
        versions.1.retain(|name, _| !CHANGED.contains(&name.as_str()));
    }
    schedule
}

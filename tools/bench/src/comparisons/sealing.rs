//! Sealing without requests: leaves of versions, a proof, and its verification. A version has 12 attributes and 1 KB.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use nix::time::{ClockId, clock_gettime};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use seal::{
    format::leaf::{Kind, Leaf},
    log::{
        checkpoint::Checkpoint,
        growth::Edge,
        note::VerifierKey,
        proof::Plan,
        tile::{self, Content, Tile},
    },
    proof::{
        document::{Digits, Disclosed, Document, ProvenLeaf},
        value::ShownValue,
    },
};
use sealing::{
    keys::EntityKeys,
    members::{Content as Committed, leaf, members_of},
};
use shared::domain::{
    attributes::{n, s},
    entity::EntityId,
    names,
    recorded_at::RecordedAt,
    version::Version,
    view::VersionView,
};

use crate::{
    error::BenchError,
    figure::{Figure, Target, millis},
    harness::Bench,
};

const TABLE: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/VersionControl";
const VERSIONS: u64 = 10_000;
const THREADS: u64 = 2;

pub(super) fn measure(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let versions = bench.size(VERSIONS, 200);
    let keys = keys().ok_or_else(|| BenchError::Failed("no keys".to_owned()))?;
    let failed = || BenchError::Failed("the benchmark's own proof does not hold".to_owned());
    let started = Instant::now();
    let cpu: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| leaves(&keys, versions).map(|(_, cpu)| cpu)))
            .collect();
        threads.into_iter().map(|thread| thread.join().ok().flatten()).collect()
    });
    let elapsed = started.elapsed();
    let cpu: Duration = cpu.into_iter().sum::<Option<_>>().ok_or_else(failed)?;
    #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
    let all = (THREADS * versions) as f64;

    let (leaves, _) = leaves(&keys, versions).ok_or_else(failed)?;
    let mut edge = Edge::default();
    let entries: Vec<_> = leaves.iter().map(|leaf| leaf.bytes().to_vec()).collect();
    let tiles = edge.append(&entries).map_err(|_| failed())?.into_iter();
    let hashes = tiles.filter(|(tile, _)| tile.content != Content::Entries);
    let tiles: BTreeMap<_, _> = hashes
        .filter_map(|(tile, bytes)| Some((tile, tile::hashes(tile, &bytes)?)))
        .collect();
    let started = Instant::now();
    let one = proof(&keys, &edge, &tiles, versions - 1..versions).ok_or_else(failed)?;
    let proven = started.elapsed();
    let whole = proof(&keys, &edge, &tiles, 0..versions).ok_or_else(failed)?;
    verify(&one).ok_or_else(failed)?;
    let started = Instant::now();
    verify(&whole).ok_or_else(failed)?;
    let verified = started.elapsed();
    Ok(vec![
        Figure::new("versions/s, sealing with 2 threads", all / elapsed.as_secs_f64())
            .with_target(Target::AtLeast(20_000.0)),
        Figure::new("µs of CPU a version, sealing", cpu.as_secs_f64() * 1e6 / all).with_target(Target::AtMost(30.0)),
        Figure::new("ms, proof of one version", millis(proven)).with_target(Target::AtMost(10.0)),
        Figure::new(format!("ms, verification of {versions} versions"), millis(verified))
            .with_target(Target::AtMost(1_000.0)),
    ])
}

fn view(version: u64) -> Option<VersionView> {
    let mut item: Vec<_> = (0..12)
        .map(|number| (format!("Attribute{number}"), s("x".repeat(60))))
        .collect();
    item.push((names::ACTOR.to_owned(), s("amy")));
    item.push(("Qty".to_owned(), n(version)));
    item.push((
        names::RECORDED_AT.to_owned(),
        RecordedAt::since_epoch(Duration::from_secs(version)).value(),
    ));
    let entity = EntityId::new("Press#12").ok()?;
    Some(VersionView::new(
        entity,
        Version::new(version)?,
        item.into_iter().collect::<std::collections::HashMap<_, _>>().into(),
    ))
}

fn keys() -> Option<EntityKeys> {
    let view = view(1)?;
    let mut keys = EntityKeys::new(TABLE, &view.entity).ok()?;
    keys.add(members_of(TABLE, &view).iter().map(|member| &member.path))
        .ok()?;
    Some(keys)
}

/// Returns the leaves of versions from 1 on, and the CPU time of this thread.
fn leaves(keys: &EntityKeys, versions: u64) -> Option<(Vec<Leaf>, Duration)> {
    let views: Vec<_> = (1..=versions).map(view).collect::<Option<_>>()?;
    let time = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from);
    let started = time()?;
    let of = |view: &VersionView| leaf(Kind::Version, &members_of(TABLE, view), keys, view.version.get(), None).ok()?;
    let leaves = views.iter().map(of).collect::<Option<_>>()?;
    Some((leaves, time()?.saturating_sub(started)))
}

/// Returns the text of a proof of the leaves at these indices.
fn proof(
    keys: &EntityKeys,
    edge: &Edge,
    tiles: &BTreeMap<Tile, Vec<seal::Hash>>,
    indices: std::ops::Range<u64>,
) -> Option<String> {
    let proven = |index: u64| {
        let version = index + 1;
        let disclosed = members_of(TABLE, &view(version)?).into_iter().map(|member| {
            let Committed::Value(value) = member.content else {
                return None;
            };
            let salt = keys.of(&member.path).ok()??.salt(TABLE, version);
            Some(Disclosed::new(member.path, salt, ShownValue(value)))
        });
        Some(ProvenLeaf {
            kind: Kind::Version,
            version,
            index,
            inclusion: Plan::inclusion(edge.size(), index)?
                .hashes(tiles)?
                .into_iter()
                .map(Digits)
                .collect(),
            disclosed: disclosed.collect::<Option<_>>()?,
            withheld: Vec::new(),
        })
    };
    let leaves = indices.map(proven).collect::<Option<_>>()?;
    let checkpoint = Checkpoint {
        origin: "log".to_owned(),
        size: edge.size(),
        root: edge.root(),
    };
    let pair = Ed25519KeyPair::from_seed_unchecked(&[3; 32]).ok()?;
    let text = checkpoint.text();
    let note = key()?.note(&text, pair.sign(text.as_bytes()).as_ref());
    let document = Document::new(note, TABLE.to_owned(), "Press#12".to_owned(), keys.random, leaves);
    serde_json::to_string(&document).ok()
}

fn key() -> Option<VerifierKey> {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[3; 32]).ok()?;
    VerifierKey::new("log", pair.public_key().as_ref().try_into().ok()?).ok()
}

fn verify(proof: &str) -> Option<()> {
    Document::parse(proof).ok()?.verify(&key()?).ok().map(drop)
}

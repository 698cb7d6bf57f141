//! A table with versions, a log in emulated buckets, and the checks of both.

use std::{
    collections::BTreeMap,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use local::template::Table as TableOf;
use operations::{
    progress::Silent,
    rate_limit::{Limits as Rates, RateLimiter},
    sealed,
    segments::Plan,
    table::settings::TableSettings,
};
use seal::{
    format::leaf::{Kind, Leaf},
    log::{
        checkpoint::Checkpoint,
        note::VerifierKey,
        tile::{Content, Tile, WIDTH, entries},
        tree::{leaf_hash, root},
    },
};
use sealing::{
    audit::{Audit, Line, finding::Finding},
    error::SealError,
    keys::KeysTable,
    place::Place,
    prove::{Proof, ProveError, Prover, Which},
    sealer::{Limits, Sealed, Sealer},
    settings::{LogPlace, Settings},
    state::{Operation, StateTable},
};
use serde_json::json;
use shared::{
    clock::Clock,
    domain::{
        Item, attributes::item_from_dynamodb_json, keys::VersionDigits, version::Version, version_item::VersionItem,
    },
    dynamodb::{Store, client::capacity::Meter},
};
use testkit::{
    cloud::{Cloud, Fault, Process, Request},
    database::{Database, entity},
};
use tokio::time::Instant;

/// Name of the log.
const ORIGIN: &str = "example.com/log";
/// Time at which a world begins, in seconds since 1970.
const START: u64 = 1_800_000_000;

/// One table, one log, and a clock.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) database: Arc<Database>,
    pub(crate) cloud: Cloud,
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) now: Arc<AtomicU64>,
    pub(crate) limits: Limits,
}

impl World {
    /// Creates the tables under names of their own.
    pub(crate) async fn new(database: &Arc<Database>) -> Self {
        let cloud = Cloud::default();
        cloud.create_bucket("log", true);
        cloud.create_bucket("staging", false);
        cloud.create_key("key", &[7; 32]);
        let id = fastrand::u32(..);
        let name = |kind: &str| database.table_name(&format!("{kind}-{id}"));
        for (kind, time_index) in [("T", true), ("S", false), ("K", false)] {
            let settings = TableSettings {
                ttl: None,
                time_index,
                ..TableSettings::of_history()
            };
            let name = name(kind);
            local::dynamodb::table::ensure(&database.client, &TableOf { name, settings })
                .await
                .unwrap();
        }
        let now = Arc::new(AtomicU64::new(START * 1000));
        let store = Store::new(database.client.clone(), name("T"), VersionDigits::default());
        store.claim_layout().await.unwrap();
        let world = Self {
            database: database.clone(),
            cloud,
            store: store.with_time_index(Some(true)),
            settings: Settings {
                tables: vec![(name("T"), None)],
                state: name("S"),
                keys: name("K"),
                origin: ORIGIN.to_owned(),
                place: LogPlace::Bucket {
                    log: "log".to_owned(),
                    staging: "staging".to_owned(),
                    key: "key".to_owned(),
                    mode: Some("COMPLIANCE".to_owned()),
                    days: (10, 1),
                },
            },
            now,
            limits: Limits::default(),
        };
        let clock = world.clock();
        Self {
            store: world.store.clone().with_clock(clock),
            ..world
        }
    }

    fn clock(&self) -> Clock {
        let now = self.now.clone();
        Clock::new(move || Duration::from_millis(now.load(Ordering::Relaxed)))
    }

    /// Moves the clock.
    pub(crate) fn pass(&self, seconds: u64) {
        self.now.fetch_add(seconds * 1000, Ordering::Relaxed);
    }

    pub(crate) fn text_of(&self, seconds_ago: i64) -> String {
        let millis = self.now.load(Ordering::Relaxed).checked_sub_signed(seconds_ago * 1000);
        shared::domain::recorded_at::RecordedAt::since_epoch(Duration::from_millis(millis.unwrap())).to_string()
    }

    /// Inserts a version that was recorded some seconds ago.
    pub(crate) async fn insert(&self, entity: &str, version: u64, recorded_ago: i64) {
        let image = json!({
            "PK": {"S": entity}, "SK": {"S": "v0"}, "Latest": {"N": version.to_string()}, "RecordedVersion": {"N": version.to_string()},
            "RecordedAt": {"S": self.text_of(recorded_ago)}, "Actor": {"S": "amy"}, "Qty": {"N": version.to_string()},
            "Place": {"M": {"Hall": {"S": "H1"}, "Row": {"N": "2"}}},
        });
        let image: Item = item_from_dynamodb_json(&image.to_string()).unwrap();
        let version = VersionItem::from_image(image, self.store.digits()).unwrap();
        self.store.put_version(&version).await.unwrap();
    }

    /// Inserts this many versions of each of some entities, recorded now.
    pub(crate) async fn insert_all(&self, entities: u64, versions: std::ops::RangeInclusive<u64>) {
        for entity in 0..entities {
            for version in versions.clone() {
                self.insert(&format!("E#{entity}"), version, 0).await;
            }
        }
    }

    /// Runs seal-fn in a process whose requests call the script.
    pub(crate) async fn seal<F>(&self, script: impl FnMut(&Request) -> F + Send + 'static) -> Result<u64, SealError>
    where
        F: Future<Output = Option<Fault>> + Send + 'static,
    {
        self.seal_in(&self.cloud.process(script)).await
    }

    /// Runs seal-fn without faults.
    pub(crate) async fn seal_now(&self) -> Result<u64, SealError> {
        self.seal(|_| ready(None)).await
    }

    /// Inserts a version and runs seal-fn, on another thread: the future of a script must be sendable.
    pub(crate) async fn insert_and_seal_elsewhere(self, entity: &'static str, version: u64) {
        let (done, is_done) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let outcome = runtime.block_on(async {
                self.pass(1);
                self.insert(entity, version, 0).await;
                self.seal_now().await
            });
            done.send(outcome.map(drop).map_err(|error| error.to_string()))
        });
        assert_eq!(is_done.await, Ok(Ok(())));
    }

    /// Runs seal-fn in a process.
    pub(crate) async fn seal_in(&self, process: &Process) -> Result<u64, SealError> {
        let mut sealed = Sealed::default();
        let deadline = Instant::now() + Duration::from_secs(600);
        Box::pin(self.sealer(process).await?.run(deadline, &mut sealed)).await?;
        Ok(sealed.leaves)
    }

    /// Starts seal-fn in a process.
    pub(crate) async fn sealer(&self, process: &Process) -> Result<Sealer, SealError> {
        let client = Client::new(&process.wrap(&self.database.endpoint.config));
        let mut sealer = Box::pin(self.settings.sealer(&process.config(), &client)).await?;
        sealer.clock = self.clock();
        sealer.limits = self.limits;
        Ok(sealer)
    }

    async fn place(&self) -> Place {
        Place::of(&self.store).await.unwrap().unwrap()
    }

    /// Makes a proof of versions of an entity, of which the latest has this number.
    pub(crate) async fn prove(&self, id: &str, which: Which, latest: u64) -> Result<Proof, ProveError> {
        let place = self.place().await;
        let log = self.sealer(&self.cloud.process(|_| ready(None))).await.unwrap().log;
        let (store, place, log) = (&self.store, &place, &log);
        let (prover, id) = (Prover { store, place, log }, entity(id));
        let all = (Version::FIRST, Version::new(latest).unwrap());
        Box::pin(prover.prove(&id, which, all, &[], &Silent)).await
    }

    /// Audits the table in a process, and returns the findings.
    pub(crate) async fn audit(&self, process: &Process) -> Vec<Finding> {
        let client = Client::new(&process.wrap(&self.database.endpoint.config));
        let (place, log) = (self.place().await, self.sealer(process).await.unwrap().log);
        let (store, pace) = (
            self.store.clone().with_client(client.clone()),
            RateLimiter::new(Meter::default(), Rates::default()),
        );
        let audit = Audit {
            plan: Plan::new(&store, &pace),
            log,
            key: verifier(),
            earlier: None,
            keys: KeysTable::new(client.clone(), &place.keys),
            state: StateTable::new(client, &place.state),
            table: place.table,
            seals_missing: false,
        };
        let mut findings = Vec::new();
        let found = |line| {
            if let Line::Finding(finding) = line {
                findings.push(finding);
            }
            Ok::<_, SealError>(())
        };
        Box::pin(audit.run(|_| (), found)).await.unwrap();
        findings
    }

    /// Checks every signed checkpoint against the entries of the published one, and returns the leaves.
    pub(crate) fn log(&self) -> Vec<Leaf> {
        let objects = self.cloud.objects("log");
        let open = |bytes: &Vec<u8>| Checkpoint::open(std::str::from_utf8(bytes).unwrap(), &verifier()).unwrap();
        let signed = objects.iter().filter(|(path, _)| path.starts_with("checkpoint"));
        // The tiles of a checkpoint that is signed and not published yet are written.
        let Some(published) = signed
            .map(|(_, bytes)| open(bytes))
            .max_by_key(|checkpoint| checkpoint.size)
        else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for number in 0..published.size.div_ceil(WIDTH) {
            let tile = Tile::of_tree(Content::Entries, number, published.size).unwrap();
            all.extend(
                entries(tile, &objects[&tile.to_string()])
                    .unwrap()
                    .into_iter()
                    .map(<[u8]>::to_vec),
            );
        }
        let hashes: Vec<_> = all.iter().map(|entry| leaf_hash(entry)).collect();
        for (path, bytes) in &objects {
            if path.starts_with("checkpoint") {
                let checkpoint = open(bytes);
                let size = usize::try_from(checkpoint.size).unwrap();
                assert_eq!(root(hashes[..size].iter().copied()), checkpoint.root, "{path}");
            }
            if path != "checkpoint" {
                assert_eq!(self.cloud.versions("log", path).len(), 1, "{path} was overwritten");
            }
        }
        all.iter().map(|entry| Leaf::parse(entry).unwrap()).collect()
    }

    /// Checks the log, and that it has each version of the table once.
    pub(crate) fn check(&self, versions: usize) {
        let mut count = BTreeMap::new();
        for leaf in self.log().iter().filter(|leaf| leaf.kind == Kind::Version) {
            *count.entry((leaf.tag, leaf.version)).or_insert(0) += 1;
        }
        assert_eq!(count.values().copied().collect::<Vec<_>>(), vec![1; versions]);
    }
}

/// Returns an operation on the versions from 1 on.
pub(crate) fn operation(id: u128, kind: sealed::Kind, (table, entity): (&str, &str), to: u64) -> Operation {
    Operation {
        id: id.to_be_bytes(),
        kind,
        table: table.to_owned(),
        entity: entity.to_owned(),
        versions: (1, to),
        role: String::new(),
        reason: String::new(),
        recorded_at: String::new(),
        paths: Vec::new(),
        index: None,
    }
}

fn verifier() -> VerifierKey {
    let pair = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let public = ring::signature::KeyPair::public_key(&pair).as_ref().try_into().unwrap();
    VerifierKey::new(ORIGIN, public).unwrap()
}

//! Plan of the undo of one entity.

use item_diff::{
    change::Changes,
    undo::{Conflict, Revision, undo},
};
use serde_json::{Value, json};
use shared::{
    config::{Idempotency, Ordering, WriteMode},
    domain::{
        Item,
        attached::{AttachedTable, key},
        attribution,
        change::Change,
        entity::EntityId,
        erased::{Erased, hide, keep},
        names, plain,
        request_id::{RequestHash, RequestId},
        size,
        version::Version,
        view::{VersionView, time_of},
    },
    dynamodb::{Store, s},
    logging::chain,
};
use writer_fn::update::{ExpectedVersion, Update};

use super::{
    history::{Versions, latest_item, reason_of},
    options::{Conflicts, Counts, Options},
};
use crate::{
    error::{Kind, OperationError},
    item_change::{ItemChange, ItemOptions, Wanted, plan_item_change},
    revision::{self, ChangeOptions, MAX_WAIT},
    waiting::Waiting,
};

/// What happens to an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Update,
    Delete,
    /// It is deleted, and exists again.
    Restore,
    None,
}

/// Plan of the undo of one entity.
#[derive(Clone)]
pub struct EntityPlan {
    pub entity: EntityId,
    /// Key attributes of an item of an attached table.
    pub key: Option<Item>,
    pub action: Action,
    /// Newest version that the plan saw, `None` if the entity cannot be read.
    pub newest: Option<Version>,
    /// Versions that are undone, and those of them whose author is uncertain.
    pub versions: Vec<Version>,
    pub uncertain: Vec<Version>,
    /// Item before and after the undo, `None` if it does not exist.
    pub items: [Option<Item>; 2],
    pub conflicts: Vec<Conflict>,
    /// Values that were erased from a version that the plan read. They stay as they are.
    pub erased: Erased,
    /// Reason why the entity as a whole cannot be undone.
    pub reason: Option<String>,
    pub counts: Counts,
    /// Estimate of the write units, with those of the version in history.
    pub write_units: u64,
    pub(super) write: Option<Write>,
}

/// Write that carries out a plan.
#[derive(Clone)]
pub(super) enum Write {
    Update {
        update: Box<Update>,
        latest: Box<VersionView>,
    },
    Item(Box<ItemChange>),
}

impl Action {
    pub fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Restore => "restore",
            Self::None => "none",
        }
    }
}

impl EntityPlan {
    /// Returns `true` if the entity has a version that is undone, or can have one.
    pub fn is_concerned(&self) -> bool {
        !self.versions.is_empty() || self.reason.is_some()
    }

    pub fn has_conflicts(&self) -> bool {
        !self.conflicts.is_empty() || self.reason.is_some()
    }

    pub fn changes(&self) -> Changes<'_> {
        Changes::between(self.items[0].as_ref(), self.items[1].as_ref())
    }

    /// Returns `{"ID": …, "Action": …, "Version": 7, "Versions": [4, 6], "Changes": […], "Conflicts": [{"Path", "From", "To"}]}`, with
    /// `"Key": {…}` in place of `ID` for an item of an attached table. `Version` is the newest one that the plan saw, null if there
    /// is none, and a conflict of the entity as a whole has a `Reason`. `Uncertain` has the versions whose author is.
    pub fn to_json(&self) -> Value {
        let (name, id) = match &self.key {
            Some(key) => ("Key", Value::Object(plain::attributes(key))),
            None => ("ID", self.entity.as_str().into()),
        };
        let mut json = json!({
            name: id, "Action": self.action.name(), "Version": self.newest, "Versions": self.versions,
        });
        let conflict = |conflict: &Conflict| {
            let mut json = json!({"Path": conflict.path.to_string()});
            for (name, value) in [("From", &conflict.from), ("To", &conflict.to)] {
                if let Some(value) = value {
                    json[name] = plain::attribute(value);
                }
            }
            json
        };
        let whole = self.reason.iter().map(|reason| json!({"Path": "", "Reason": reason}));
        let conflicts: Vec<_> = self.conflicts.iter().map(conflict).chain(whole).collect();
        if let Value::Object(members) = &mut json {
            members.extend(self.changes().to_json());
            members.insert("Conflicts".to_owned(), conflicts.into());
            members.extend(self.erased.to_json().map(|erased| ("Erased".to_owned(), erased)));
            if !self.uncertain.is_empty() {
                members.insert("Uncertain".to_owned(), json!(self.uncertain));
            }
        }
        json
    }

    /// Replaces the error of an entity that does not exist, or whose items are not valid, by a plan that leaves it as it is.
    pub(super) fn or_refused(
        planned: Result<Self, OperationError>,
        store: &Store,
        entity: &EntityId,
    ) -> Result<Self, OperationError> {
        let error = match planned {
            Err(error) if matches!(error.kind(), Kind::Conflict | Kind::NotFound) => error,
            planned => return planned,
        };
        let table = store.attached_table();
        Ok(Self {
            entity: entity.clone(),
            key: table.and_then(|table| key::attributes(table, entity.as_str()).ok()),
            action: Action::None,
            newest: None,
            versions: Vec::new(),
            uncertain: Vec::new(),
            items: [None, None],
            conflicts: Vec::new(),
            erased: Erased::default(),
            reason: Some(chain(&error)),
            counts: Counts::default(),
            write_units: 0,
            write: None,
        })
    }

    /// Leaves the entity as it is, for this reason.
    pub(super) fn refuse(&mut self, reason: String) {
        let [current, target] = &mut self.items;
        target.clone_from(current);
        (self.action, self.write, self.write_units) = (Action::None, None, 0);
        self.reason = Some(reason);
    }
}

/// Plans the undo of an entity. If history is behind, it waits, at most [`MAX_WAIT`].
///
/// # Errors
///
/// Returns [`OperationError::NoEntity`] if the entity does not exist, and the error of a request that fails. Any other reason is part of
/// the plan.
pub async fn plan(store: &Store, entity: &EntityId, options: &Options) -> Result<EntityPlan, OperationError> {
    let mut waiting = Waiting::at_most(MAX_WAIT);
    loop {
        let (mut plan, reason) = Box::pin(attempt(store, entity, options)).await?;
        match reason {
            None => return Ok(plan),
            Some(OperationError::NotInHistory { .. } | OperationError::Differs) if waiting.again().await => {}
            Some(error) => {
                plan.refuse(reason_of(error)?);
                return Ok(plan);
            }
        }
    }
}

/// Plans once. The second value is the reason why the entity cannot be undone.
async fn attempt(
    store: &Store,
    entity: &EntityId,
    options: &Options,
) -> Result<(EntityPlan, Option<OperationError>), OperationError> {
    let (read, reason) = Versions::read(store, entity, &options.selection).await?;
    let (table, latest) = (store.attached_table(), read.in_order.last().map(|(view, _)| view));
    let left_out = LeftOut(table);
    let current = latest.and_then(|latest| left_out.state(latest));
    let key = match (table, latest) {
        (Some(table), Some(latest)) => {
            let mut key = latest.attributes.clone();
            key.retain(|name, _| table.keys().any(|key| key.name == *name));
            Some(key)
        }
        _ => None,
    };
    let mut plan = EntityPlan {
        entity: entity.clone(),
        key,
        action: Action::None,
        newest: Some(read.newest),
        versions: read.selected.clone(),
        uncertain: read.uncertain,
        items: [current.clone(), current],
        conflicts: Vec::new(),
        erased: Erased::default(),
        reason: None,
        counts: read.counts,
        write_units: 0,
        write: None,
    };
    let Some(latest) = latest.filter(|_| reason.is_none() && !read.selected.is_empty()) else {
        return Ok((plan, reason));
    };
    for (view, _) in &read.in_order {
        for (path, value) in view.erased.clone().of_attributes().0 {
            plan.erased.add(path, value);
        }
    }
    let whole = latest_item(store, latest, &plan.erased).await?;
    if let Some(whole) = &whole {
        plan.items = [left_out.state(whole), left_out.state(whole)];
    }
    let latest = whole.as_ref().unwrap_or(latest);
    let state = |(view, _): &(VersionView, bool)| {
        let mut state = left_out.state(view)?;
        hide(&mut state, plan.erased.paths());
        Some(state)
    };
    let states: Vec<_> = read.in_order.iter().map(state).collect();
    // Without a state before, the first selected version created the item.
    let begins = usize::from(read.in_order.first().is_some_and(|(_, is_selected)| !is_selected));
    let before = states.first().filter(|_| begins == 1).and_then(Option::as_ref);
    let revisions = states.iter().zip(&read.in_order).skip(begins);
    let revisions: Vec<_> = revisions
        .map(|(state, (_, is_selected))| Revision {
            state: state.as_ref(),
            is_selected: *is_selected,
        })
        .collect();
    let undone = undo(before, &revisions, options.conflicts.of_merge());
    plan.conflicts = undone.conflicts;
    if options.conflicts == Conflicts::Leave && !plan.conflicts.is_empty() {
        return Ok((plan, None));
    }
    plan.items[1] = undone.target.map(|mut target| {
        if let Some(current) = &plan.items[0] {
            keep(&mut target, current, plan.erased.paths());
        }
        target
    });
    let reason = match table {
        Some(_) => of_item(store, &mut plan, &left_out.last(&read.in_order), options)
            .await
            .err(),
        None => of_update(&mut plan, latest, options).err(),
    };
    plan.action = match &plan.items {
        _ if plan.changes().changes.is_empty() && plan.items[0].is_some() == plan.items[1].is_some() => Action::None,
        [Some(_), Some(_)] => Action::Update,
        [Some(_), None] => Action::Delete,
        [None, _] => Action::Restore,
    };
    match plan.action {
        Action::None => plan.write = None,
        _ => plan.write_units = write_units(&plan, options),
    }
    Ok((plan, reason))
}

/// Attributes of a version that an undo leaves alone: those of the version itself.
struct LeftOut<'a>(Option<&'a AttachedTable>);

impl LeftOut<'_> {
    fn has(&self, name: &str) -> bool {
        let Some(table) = self.0 else {
            return attribution::OF_CLIENT.contains(&name);
        };
        table.keys().any(|key| key.name == name)
            || table.attribution().any(|own| own == name)
            || table.version_attribute() == Some(name)
            || table.ignored().contains(name)
    }

    fn state(&self, view: &VersionView) -> Option<Item> {
        let mut state = view.attributes.clone();
        state.retain(|name, _| !self.has(name));
        (!view.deleted).then_some(state)
    }

    /// Returns these attributes of the last version that is no deletion.
    fn last(&self, in_order: &[(VersionView, bool)]) -> Item {
        let last = in_order.iter().rev().find(|(view, _)| !view.deleted);
        let mut last = last.map(|(view, _)| view.attributes.clone()).unwrap_or_default();
        last.retain(|name, _| self.has(name));
        last
    }
}

/// Adds the update that carries out a plan.
fn of_update(plan: &mut EntityPlan, latest: &VersionView, options: &Options) -> Result<(), OperationError> {
    let mut change = ChangeOptions {
        expected: Some(ExpectedVersion::Is(latest.version)),
        ..ChangeOptions::default()
    };
    let texts = [
        (names::ACTOR, options.actor.as_ref()),
        (names::REASON, options.reason.as_ref()),
        (names::CHANGE_SET, options.change_set.as_ref()),
    ];
    let texts = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name, s(text?.clone()).into())));
    let mut members: Vec<_> = texts.collect();
    if options.ordering == Ordering::Time {
        change.timestamp = time_of(&latest.attributes).ok();
        members.extend(
            latest
                .attributes
                .get(names::TIME)
                .map(|time| (names::TIME, time.clone())),
        );
    }
    change.changes = members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Change::Set(value)))
        .collect();
    // A repeat after a lost response is the same request, and an undo of later changes is another one.
    let invalid = |error: &dyn std::error::Error| OperationError::Invalid(format!("the change set: {}", chain(error)));
    let set = RequestHash::of(
        &RequestId::new(options.change_set.as_deref().unwrap_or_default()).map_err(|error| invalid(&error))?,
    );
    let request =
        RequestId::new(format!("undo#{}#{}", latest.version, set.as_str())).map_err(|error| invalid(&error))?;
    let update = revision::update_to(plan.items[1].as_ref(), latest, &plan.entity, &request, &change);
    update.check().map_err(|error| OperationError::Invalid(chain(&error)))?;
    plan.write = Some(Write::Update {
        update: Box::new(update),
        latest: Box::new(latest.clone()),
    });
    Ok(())
}

/// Adds the change of the item that carries out a plan. `last` has the attributes that the item gets if it exists again.
async fn of_item(store: &Store, plan: &mut EntityPlan, last: &Item, options: &Options) -> Result<(), OperationError> {
    if plan.changes().changes.is_empty() && plan.items[0].is_some() == plan.items[1].is_some() {
        return Ok(());
    }
    let wanted = plan.items[1].clone().map(|mut wanted| {
        wanted.extend(last.iter().map(|(name, value)| (name.clone(), value.clone())));
        wanted
    });
    let changing = ItemOptions {
        actor: options.actor.clone().filter(|_| wanted.is_some()),
        reason: options.reason.clone().filter(|_| wanted.is_some()),
        change_set: options.change_set.clone().filter(|_| wanted.is_some()),
        allow_expired: options.allow_expired,
        only_changed: true,
    };
    let key = plan.key.clone().unwrap_or_default();
    let change = plan_item_change(store, key, Wanted::State(wanted.as_ref()), &changing).await?;
    if Some(change.newest) != plan.newest.map(Version::get) {
        return Err(OperationError::Differs);
    }
    plan.items = [change.item.clone(), change.wanted.clone()];
    plan.write = Some(Write::Item(Box::new(change)));
    Ok(())
}

/// Estimates the write units of the item and of its version in history.
fn write_units(plan: &EntityPlan, options: &Options) -> u64 {
    let bytes = plan.items.iter().flatten().map(size::of_item).max().unwrap_or_default();
    let is_transaction =
        options.write.mode == WriteMode::Transaction || options.write.idempotency == Idempotency::Ledger;
    let writes = if plan.key.is_none() && is_transaction { 4 } else { 2 };
    writes * (bytes as u64).div_ceil(1024).max(1)
}

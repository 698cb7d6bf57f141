//! Carries out the plan of one entity: one write, if the entity is still as the plan saw it.

use shared::{domain::version::Version, dynamodb::Store};
use writer_fn::counter::WriteOutcome;

use super::{
    history::reason_of,
    options::Options,
    plan::{Action, EntityPlan, Write, plan},
    set_file::SetFile,
};
use crate::{error::OperationError, item_change::change_item, revision::write_restored};

/// Maximum number of plans for an entity that other clients change.
const MAX_ATTEMPTS: u32 = 3;

/// Result of an undo of an entity.
pub struct Applied {
    /// The plan that was carried out: another one than the first if the entity changed in the meantime.
    pub plan: EntityPlan,
    /// `true` if the entity is as the plan wanted it, and was not before.
    pub is_written: bool,
    /// `true` if the entity changed since the plan that was seen, and so stays as it is.
    pub is_stale: bool,
    /// New version. `None` on an attached table, whose versions come from its stream.
    pub version: Option<Version>,
}

/// Carries out a plan. If the entity changed in the meantime, it is planned again. `seen` is the newest version of an earlier plan, if only
/// that may be carried out: then an entity that changed stays as it is.
///
/// # Errors
///
/// Returns the error of a service that fails. The undo can be repeated. Any other reason is part of the plan.
pub async fn apply(
    store: &Store,
    mut plan: EntityPlan,
    seen: Option<Version>,
    options: &Options,
    set: Option<&SetFile>,
) -> Result<Applied, OperationError> {
    let (mut attempts, mut is_changed) = (0, false);
    let written = loop {
        is_changed |= seen.is_some_and(|seen| Some(seen) != plan.newest);
        let Some(write) = plan.write.as_ref().filter(|_| !is_changed && attempts < MAX_ATTEMPTS) else {
            break None;
        };
        attempts += 1;
        match Box::pin(send(store, write, options, set)).await {
            Ok(version) => break Some(version),
            Err(OperationError::Changed | OperationError::Expected { .. }) => {
                let again = self::plan(store, &plan.entity, options).await;
                plan = EntityPlan::or_refused(again, store, &plan.entity)?;
                is_changed = seen.is_some();
            }
            Err(error) => plan.refuse(reason_of(error)?),
        }
    };
    // Otherwise, nothing is left to do.
    if written.is_none() && plan.action != Action::None {
        plan.refuse(match seen {
            Some(seen) => format!("it changed since the plan, which saw version {seen}: plan the undo again"),
            None => "other clients keep changing it: repeat the undo".to_owned(),
        });
    }
    Ok(Applied {
        plan,
        is_written: written.is_some(),
        is_stale: is_changed && written.is_none(),
        version: written.flatten(),
    })
}

async fn send(
    store: &Store,
    write: &Write,
    options: &Options,
    set: Option<&SetFile>,
) -> Result<Option<Version>, OperationError> {
    let (update, latest) = match write {
        Write::Update { update, latest } => (update, latest),
        Write::Item(change) => {
            let set = set.zip(store.attached_table());
            set.map_or(Ok(()), |(set, table)| set.add(table, change))?;
            change_item(store, change).await?;
            return set.map_or(Ok(()), |(set, _)| set.add_written(change)).map(|()| None);
        }
    };
    match write_restored(store, update, Some(latest), options.write).await? {
        WriteOutcome::Written { version }
        | WriteOutcome::Duplicate { version }
        | WriteOutcome::Unchanged { version } => Ok(Some(version)),
        outcome => Err(OperationError::of_outcome(outcome).unwrap_or(OperationError::Changed)),
    }
}

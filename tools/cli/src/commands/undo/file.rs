//! File of a plan: the lines that the command prints in JSON. The last one has the table, and a digest of all lines, so that a plan is carried
//! out only as it was saved.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, BufWriter, Write as _},
    path::Path,
};

use operations::{
    connection::Connection,
    undo::{
        options::{Conflicts, Options},
        plan::{Action, EntityPlan},
        planned::{Planned, PlannedFile},
    },
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::{domain::version::Version, json};

use super::report::{Report, file_summary};
use crate::error::CliError;

const ON_CONFLICT: &str = "OnConflict";
const TABLE: &str = "Table";
const DIGEST: &str = "Digest";
const MODES: [(Conflicts, &str); 3] = [
    (Conflicts::Leave, "leave"),
    (Conflicts::SkipPath, "skip-path"),
    (Conflicts::Overwrite, "overwrite"),
];

/// File to which a plan is saved, `None` if it is not.
pub(super) struct PlanFile {
    file: Option<BufWriter<File>>,
    table: String,
    digest: Sha256,
}

impl PlanFile {
    pub(super) fn create(path: Option<&Path>, connection: &Connection) -> Result<Self, CliError> {
        let create = |path: &Path| File::create(path).map_err(|error| CliError::usage("--plan", error));
        Ok(Self {
            file: path.map(create).transpose()?.map(BufWriter::new),
            table: name(&connection.table).to_owned(),
            digest: Sha256::new(),
        })
    }

    pub(super) fn add(&mut self, plan: &EntityPlan) -> Result<(), CliError> {
        self.line(&plan.to_json())
    }

    pub(super) fn end(mut self, report: &Report, options: &Options) -> Result<(), CliError> {
        let mut summary = file_summary(report);
        let mode = MODES.iter().find(|(mode, _)| *mode == options.conflicts);
        summary[ON_CONFLICT] = mode.map(|(_, name)| *name).into();
        summary["Reason"] = options.reason.clone().into();
        summary["Actor"] = options.actor.clone().into();
        summary[TABLE] = self.table.clone().into();
        summary[DIGEST] = with_end(self.digest.clone(), &summary).into();
        self.line(&summary)?;
        Ok(self.file.map_or(Ok(()), |mut file| file.flush())?)
    }

    fn line(&mut self, line: &Value) -> Result<(), CliError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let line = format!("{line}\n");
        self.digest.update(&line);
        Ok(file.write_all(line.as_bytes())?)
    }
}

/// Returns the name of a table, also from an ARN.
fn name(table: &str) -> &str {
    table.rsplit('/').next().unwrap_or(table)
}

/// Returns the digest of the lines of a plan, of which the last one has none yet.
fn with_end(lines: Sha256, end: &Value) -> String {
    let digest: [u8; 32] = lines.chain_update(end.to_string()).finalize().into();
    uuid::Uuid::from_slice(&digest[..16]).unwrap_or_default().to_string()
}

/// Reads the entities that a plan changes, and its options.
pub(super) fn read(
    path: &Path,
    connection: &Connection,
    options: &mut Options,
    entities: &mut PlannedFile,
) -> Result<(), CliError> {
    let unreadable = |error| CliError::usage("--apply", error);
    let (file, mut is_complete, mut digest) = (File::open(path).map_err(unreadable)?, false, Sha256::new());
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(unreadable)?;
        let invalid = |why: &str| CliError::Usage(format!("--apply: line {} {why}", index + 1));
        let mut json = json::parse(&line).map_err(|error| invalid(&format!("is no JSON: {error}")))?;
        let changed = || {
            CliError::Usage("--apply: the plan was changed after it was saved: save it again with --plan".to_owned())
        };
        if is_complete {
            return Err(changed());
        }
        let saved = json.as_object_mut().and_then(|json| json.remove(DIGEST));
        let text = |name: &str| json.get(name).and_then(Value::as_str);
        if json.get("Entities").is_some() {
            let mode = MODES.iter().find(|(_, name)| text(ON_CONFLICT) == Some(name));
            options.conflicts = mode.ok_or_else(|| invalid("is not the end of a plan"))?.0;
            let (of, own) = (text(TABLE).unwrap_or_default(), name(&connection.table));
            if of != own {
                return Err(CliError::Usage(format!(
                    "--apply: the plan is for the table {of}, and not for {own}: pass --table {of}"
                )));
            }
            if saved != Some(with_end(digest.clone(), &json).into()) {
                return Err(changed());
            }
            options.change_set = text("ChangeSet").map(str::to_owned);
            options.reason = text("Reason").map(str::to_owned);
            options.actor = options.actor.take().or_else(|| text("Actor").map(str::to_owned));
            is_complete = true;
            continue;
        }
        digest.update(&line);
        digest.update("\n");
        let id = match (text("ID"), json.get("Key")) {
            (Some(id), _) => id.to_owned(),
            (None, Some(key)) => key.to_string(),
            _ => return Err(invalid("is no plan of an entity")),
        };
        if text("Action") == Some(Action::None.name()) {
            continue;
        }
        let version = |value: &Value| value.as_u64().and_then(Version::new);
        let versions = json.get("Versions").and_then(Value::as_array);
        let versions = versions.and_then(|versions| versions.iter().map(version).collect::<Option<Vec<_>>>());
        let seen = json.get("Version").and_then(version).zip(versions);
        let seen = seen.ok_or_else(|| invalid("has no Version and Versions"))?;
        entities.push(Planned {
            entity: connection.entity(&id)?,
            first: seen.1.first().copied(),
            seen: Some(seen),
        })?;
    }
    match is_complete {
        true => Ok(()),
        false => Err(CliError::Usage(
            "--apply: the plan has no end: save it again with --plan".to_owned(),
        )),
    }
}

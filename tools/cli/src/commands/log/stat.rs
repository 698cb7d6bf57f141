//! Output of `vzero log --all --stat`.

use operations::all_versions::tally::Tally;
use serde_json::{Value, json};

use crate::{
    error::CliError,
    output::{self, Output},
};

pub(super) fn print(tally: &Tally, output: &Output) -> Result<(), CliError> {
    if output.is_json_chosen() {
        let groups = tally.groups().map(|(group, names)| {
            let names = names.into_iter();
            let names = names.map(|(name, count)| json!({"Name": name, "Versions": count}));
            (group.to_owned(), names.collect::<Value>())
        });
        let mut json: serde_json::Map<_, _> = groups.collect();
        json.insert("Versions".to_owned(), tally.versions.into());
        return output::print_json(&json.into());
    }
    output::print(&format!("{} versions", tally.versions))?;
    for (group, names) in tally.groups() {
        output::print(group)?;
        for (name, count) in names {
            let name = name.unwrap_or(if group == "Path" { "(not known)" } else { "(none)" });
            output::print(&format!("{count:>9}  {}", shared::printable::line(name)))?;
        }
    }
    Ok(())
}

//! `vzero verify`.

use std::{collections::BTreeSet, path::PathBuf};

use seal::{
    log::{checkpoint::Checkpoint, note::VerifierKey},
    proof::{document::Document, in_log::InLog, verify::Proven},
};
use sealing::{error::SealError, log::Log};
use serde_json::json;

use crate::{connection, error::CliError, globals::Globals, input, output::Output};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Verify {
    /// Proof, or - for standard input
    #[arg(value_name = "FILE")]
    proof: PathBuf,
    /// File with the log's verifier key, which you received in another way than the proof
    #[arg(long, value_name = "FILE")]
    vkey: PathBuf,
    /// Also read all entries of the log: was a version sealed twice, or the log changed since?
    #[arg(long, value_name = "FOLDER|s3://BUCKET")]
    log: Option<String>,
    /// Endpoint of S3 [default: AWS]
    #[arg(long, value_name = "URL", requires = "log")]
    s3_endpoint_url: Option<String>,
}

const EXAMPLES: &str = "\
It needs no table, and without a bucket no network and no credentials. Exit codes: 0 all of the proof holds, 1 it does not.
Examples:
  vzero verify proof.json --vkey vkey
  vzero verify proof.json --vkey vkey --log s3://LogBucketName";

/// Meaning and limits of a proof, printed below the result.
const MEANING: &str = "\
Proven: the holder of the log's key signed a tree with these leaves; the values were sealed for this table, entity and version; a leaf without
withheld members had no others.
Not proven: that a value is true, or written by its actor; that RecordedAt is right; when it was sealed, except before the day on which you
received the checkpoint; that there is no later version; that the log has no second leaf of a version; that others see the same log; with
withheld members, that a shown name occurs once.";

impl Verify {
    pub(crate) async fn run(&self, globals: &Globals, output: &Output) -> Result<(), CliError> {
        let proof = input::bytes_of(&self.proof)?;
        let key = input::text_of(&self.vkey)?;
        let fails = |error: &dyn std::error::Error| CliError::Unproven(format!("the proof does not hold: {error}"));
        let key = VerifierKey::parse(&key).map_err(|error| CliError::usage("--vkey", error))?;
        let text = String::from_utf8(proof).map_err(|error| fails(&error))?;
        let document = Document::parse(&text).map_err(|error| fails(&error))?;
        let proven = document.verify(&key).map_err(|error| fails(&error))?;
        let in_log = match &self.log {
            Some(place) => {
                let sdk = async || connection::sdk_config(globals).await;
                let log = Log::at(place, self.s3_endpoint_url.as_deref(), sdk).await?;
                let found = log.search(&document, &proven, &key).await;
                Some(found.map_err(|error| match error {
                    SealError::Service(_) => error.into(),
                    error => fails(&error),
                })?)
            }
            None => None,
        };
        let Proven {
            checkpoint,
            versions,
            members: (shown, withheld),
        } = proven;
        let mut object = json!({
            "Holds": true, "Log": checkpoint.origin, "Size": checkpoint.size, "Table": document.table, "Entity": document.entity,
            "Versions": versions, "Leaves": document.leaves.len(), "Shown": shown, "Withheld": withheld,
        });
        let mut more = String::new();
        if let Some(InLog {
            checkpoint: Checkpoint { size, .. },
            versions: (count, newest),
            purges,
        }) = in_log
        {
            object["LogSize"] = size.into();
            object["NewestInLog"] = newest.into();
            object["PurgesInLog"] = purges.into();
            more = format!(
                "\nThe log has {size} entries now, and continues this checkpoint. It has {count} versions of the entity, up to version {newest}, \
                 none of them twice.\n"
            );
            if purges > 0 {
                more += "They are the versions since the last purge of the entity. The proof can show versions before it.\n";
            }
        }
        let sentence = format!(
            "The proof holds: {} of {} in {}, in the log {} of {} entries; {shown} members shown, {withheld} withheld.\n{more}\n{MEANING}",
            ranges(&versions),
            // In quotes: an entity can contain a sentence, or several lines.
            object["Entity"],
            object["Table"],
            checkpoint.origin,
            checkpoint.size,
        );
        output.sentence(&object, &sentence)
    }
}

/// Returns the numbers of versions in words, as `versions 1 to 3, 5`.
fn ranges(versions: &BTreeSet<u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for version in versions {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *version => *last = *version,
            _ => ranges.push((*version, *version)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    });
    let noun = match versions.len() {
        0 => return "no version".to_owned(),
        1 => "version",
        _ => "versions",
    };
    format!("{noun} {}", texts.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranges() {
        for (versions, text) in [
            (vec![], "no version"),
            (vec![3], "version 3"),
            (vec![1, 2, 3], "versions 1 to 3"),
            (vec![1, 3, 4, 9], "versions 1, 3 to 4, 9"),
        ] {
            assert_eq!(ranges(&versions.into_iter().collect()), text);
        }
    }
}

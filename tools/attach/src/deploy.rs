//! Commands that deploy `tools/attach/template.yaml`, with names quoted for two readers: the shell, and the SAM CLI.
//!
//! The SAM CLI reads each argument after `--parameter-overrides` as `Name=value` or `Name="value"`. It ends a quoted value at `"`,
//! but not at `\"`, and then replaces `\"`, `\'` and `\ ` by their second character. Other backslashes stay. So a backslash
//! before one of these characters, or at the end, cannot be passed as it is; in JSON, `\u005c` replaces it.

use serde_json::json;
use shared::domain::attached::AttachedTable;

use crate::{attachable::AttachableTable, shell::argument};

/// Maximum length of the name of a stack.
const MAX_STACK_NAME: usize = 128;

/// Returns the commands to build and deploy the stack, in the root of the repository, with the index by time if that is wanted. `None` if the table has no stream, or if the
/// SAM CLI cannot read one of the names.
pub fn commands(table: &AttachableTable, attached: &AttachedTable, has_time_index: bool) -> Option<Vec<String>> {
    let stream = table.stream.as_ref()?;
    let (name, history, ignored) = (attached.table(), attached.history_table(), attached.ignored());
    // Names with commas between them, unless one could be misread.
    let is_simple = |name: &String| !name.contains(',') && !name.starts_with('[') && name.trim() == name;
    let ignored_text = match ignored.iter().all(is_simple) {
        true => ignored.iter().map(String::as_str).collect::<Vec<_>>().join(","),
        false => without_escaped_quotes(&json!(ignored).to_string()),
    };
    // Those that differ from their defaults.
    let parameters = [
        ("TableName", Some(name.to_owned())),
        ("StreamArn", Some(stream.arn.clone())),
        (
            "HistoryTableName",
            Some(history.to_owned()).filter(|history| *history != format!("{name}-history")),
        ),
        ("VersionAttribute", attached.version_attribute().map(str::to_owned)),
        ("ActorAttribute", attached.settings().actor_attribute.clone()),
        ("ReasonAttribute", attached.settings().reason_attribute.clone()),
        ("ChangeSetAttribute", attached.settings().change_set_attribute.clone()),
        ("IgnoreAttributes", Some(ignored_text).filter(|_| !ignored.is_empty())),
        ("Filter", attached.filter().map(without_escaped_quotes)),
        ("TimeIndex", has_time_index.then(|| "true".to_owned())),
    ];
    let parameters = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let parameters: Option<Vec<_>> = parameters
        .map(|(name, value)| Some(argument(&format!("{name}={}", sam_value(&value)?))))
        .collect();
    Some(vec![
        "sam build --template tools/attach/template.yaml".to_owned(),
        format!(
            "sam deploy --template-file .aws-sam/build/template.yaml --stack-name {}{} --capabilities CAPABILITY_IAM \
             --resolve-s3 --parameter-overrides {}",
            stack_name(attached.history_table()),
            region(table),
            parameters?.join(" ")
        ),
    ])
}

/// Returns JSON in which no backslash is followed by a quote or another backslash.
fn without_escaped_quotes(json: &str) -> String {
    json.replace(r"\\", r"\u005c").replace(r#"\""#, r"\u0022")
}

/// Returns a value as the SAM CLI reads it. `None` if it cannot.
fn sam_value(value: &str) -> Option<String> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "_.:/,+@%-".contains(character);
    if !value.is_empty() && value.chars().all(is_plain) {
        return Some(value.to_owned());
    }
    // Two backslashes count as one character, so that the next one is not escaped. A quote, also the last one, and a new line would be.
    let unpaired = value.replace(r"\\", "");
    let is_unreadable = unpaired.ends_with('\\') || ["\\\"", "\\\n"].iter().any(|pair| unpaired.contains(pair));
    let text = value.replace('"', "\\\"").replace(r"\'", r"\\'").replace(r"\ ", r"\\ ");
    (!is_unreadable).then(|| format!("\"{text}\""))
}

/// Returns the option for the Region of the table, from its ARN.
pub(crate) fn region(table: &AttachableTable) -> String {
    let region = table.arn.split(':').nth(3).filter(|region| !region.is_empty());
    region.map_or(String::new(), |region| format!(" --region {}", argument(region)))
}

/// Returns the name of a stack: letters, digits and hyphens, beginning with a letter.
fn stack_name(history: &str) -> String {
    let is_other = |character: char| !character.is_ascii_alphanumeric();
    let mut name = history.replace(is_other, "-");
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        name.insert_str(0, "history-");
    }
    name.truncate(MAX_STACK_NAME);
    name
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::StreamViewType;
    use serde_json::Value;
    use shared::domain::attached::definition::AttachedSettings;

    use super::*;
    use crate::{define, tests::table};

    fn deploy(
        edit: impl FnOnce(&mut AttachableTable),
        settings: AttachedSettings,
        filter: Option<&Value>,
    ) -> Option<String> {
        let mut table = table(Some(StreamViewType::NewAndOldImages));
        edit(&mut table);
        let (_, attached) = define(&table, settings, filter).unwrap();
        commands(&table, &attached, filter.is_some()).map(|mut commands| commands.remove(1))
    }

    #[test]
    fn the_command_has_the_parameters_that_differ_from_their_defaults() {
        let start = "sam deploy --template-file .aws-sam/build/template.yaml --stack-name Orders-history --region eu-west-1 \
                     --capabilities CAPABILITY_IAM --resolve-s3 --parameter-overrides TableName=Orders \
                     StreamArn=arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/2026-11-22T06:24:48.123";
        let plain = deploy(|_| {}, AttachedSettings::default(), None).unwrap();
        assert_eq!(plain, start);
        let settings = AttachedSettings {
            history_table: Some("Log.1".to_owned()),
            version_attribute: Some("rev".to_owned()),
            actor_attribute: Some("by".to_owned()),
            reason_attribute: Some("why".to_owned()),
            change_set_attribute: Some("job".to_owned()),
            ignored: ["seen", "by"].map(str::to_owned).into(),
            ..AttachedSettings::default()
        };
        let full = deploy(|_| {}, settings, Some(&json!({"status": ["open"]}))).unwrap();
        let start = start.replace("Orders-history", "Log-1");
        let image = |image: &str| format!(r#"{{\"{image}\":{{\"status\":{{\"S\":[\"open\"]}}}}}}"#);
        let (new, old) = (image("NewImage"), image("OldImage"));
        let filter = format!(r#"'Filter="{{\"dynamodb\":{{\"$or\":[{new},{old}]}}}}"'"#);
        assert_eq!(
            full,
            format!(
                "{start} HistoryTableName=Log.1 VersionAttribute=rev ActorAttribute=by ReasonAttribute=why ChangeSetAttribute=job \
                 IgnoreAttributes=by,seen {filter} TimeIndex=true"
            )
        );
        assert_eq!(
            deploy(|table| table.stream = None, AttachedSettings::default(), None),
            None
        );
    }

    /// Returns the value that the SAM CLI 1.170 reads from a quoted one: a pair with a backslash is one character until the end
    /// of the value is found; then these pairs become their second character.
    fn read_by_sam(quoted: &str) -> Option<String> {
        let Some(inner) = quoted.strip_prefix('"') else {
            return Some(quoted.to_owned());
        };
        let mut characters = inner.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => _ = characters.next().filter(|(_, next)| *next != '\n')?,
                _ => {}
            }
        };
        let is_whole = end + 1 == inner.len();
        let value = inner[..end]
            .replace("\\ ", " ")
            .replace("\\\"", "\"")
            .replace("\\'", "'");
        is_whole.then_some(value)
    }

    #[test]
    fn the_sam_cli_reads_each_value_that_was_passed() {
        for value in [
            "plain",
            "",
            " ",
            "two words",
            "it's",
            r#"a "quoted" one"#,
            "a=b",
            "$(x) `y` ;|&<>*?!#~",
            r"a\b",
            r"\\",
            r#"\\""#,
            r"a\ b",
            r"a\'b",
            "\"",
            "'",
            "new\nline",
            "ümläut",
            "A=\"b\" C=d",
        ] {
            let passed = sam_value(value).unwrap();
            assert_eq!(read_by_sam(&passed).as_deref(), Some(value), "{passed}");
        }
        for value in [r#"\""#, r"\", r#"a\\\"b"#, "a\\\nb"] {
            assert_eq!(sam_value(value), None, "{value}");
        }
        let settings = AttachedSettings {
            version_attribute: Some(r"C:\".to_owned()),
            ..AttachedSettings::default()
        };
        assert_eq!(deploy(|_| {}, settings, None), None);
    }

    #[test]
    fn json_keeps_its_meaning_for_the_sam_cli() {
        for value in [
            json!(["a,b", "\"", "\\", "\\\"", "\n", "\\u0041"]),
            json!({"a\\\" b'": ["c\\"]}),
        ] {
            let text = without_escaped_quotes(&value.to_string());
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
            assert_eq!(read_by_sam(&sam_value(&text).unwrap()), Some(text));
        }
    }

    #[test]
    fn a_stack_has_an_allowed_name() {
        assert_eq!(stack_name("My.Orders_2-history"), "My-Orders-2-history");
        assert_eq!(stack_name("1"), "history-1");
        assert_eq!(stack_name(&"x".repeat(255)).len(), MAX_STACK_NAME);
    }
}

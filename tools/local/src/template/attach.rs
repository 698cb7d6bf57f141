//! Generates `tools/attach/template.yaml`, the template for the history of a table that other programs write.
//!
//! Its settings that `template.yaml` has too are taken from there, as text with their comments, so that each is defined once.
//! `tools/attach/source.yaml` is the generated template with directives, each in a line of its own:
//!
//! | directive | is replaced by |
//! |---|---|
//! | `#= Resources: A B` | the members `A` and `B` of `Resources`, with the comments above them |
//! | `#= Resources.Role.Policies[s3:PutObject]` | the innermost list item, or widget of the dashboard, that contains this text |
//! | `#= … ;; old => new` | the same, with each `old` replaced by `new`; a line that becomes empty is left out |
//! | `#! GENERATED` | a comment that names the source and the command |
//!
//! A directive that finds nothing, or a replacement whose text does not occur, is an error: the source has to follow each change of
//! `template.yaml`.

use std::fmt::Write as _;

use thiserror::Error;

const GENERATED: &str = "\
# Generated from tools/attach/source.yaml and template.yaml: edit these, then run
#   cargo run -p local --example attach_template";

/// The source cannot be combined with `template.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GenerateError {
    /// `template.yaml` does not have this part.
    #[error("line {line} of the source: there is no {path} in template.yaml")]
    Missing {
        /// Line of the directive, from 1.
        line: usize,
        /// Path of the part.
        path: String,
    },
    /// The text of a replacement does not occur.
    #[error("line {line} of the source: `{text}` does not occur")]
    NotReplaced {
        /// Line of the directive, from 1.
        line: usize,
        /// Text that should be replaced.
        text: String,
    },
}

/// Returns the generated template.
///
/// # Errors
///
/// Returns [`GenerateError`] if a directive does not fit to `template`, the text of `template.yaml`.
pub fn generate(source: &str, template: &str) -> Result<String, GenerateError> {
    let template: Vec<&str> = template.lines().collect();
    let mut generated = String::new();
    for (index, line) in source.lines().enumerate() {
        let text = match line.trim_start() {
            "#! GENERATED" => GENERATED.to_owned(),
            directive => match directive.strip_prefix("#= ") {
                Some(directive) => include(directive, index + 1, indent(line), &template)?,
                None => line.to_owned(),
            },
        };
        let _ = writeln!(generated, "{text}");
    }
    Ok(generated)
}

/// Returns the text of a directive, with this indentation.
fn include(directive: &str, line: usize, to: usize, template: &[&str]) -> Result<String, GenerateError> {
    let mut parts = directive.split(";;").map(str::trim);
    let (path, names) = match parts.next().unwrap_or_default() {
        path if path.ends_with(']') => (path, Vec::new()),
        members => {
            let (path, names) = members.split_once(": ").unwrap_or((members, ""));
            (path, names.split_whitespace().collect())
        }
    };
    let missing = |name: &str| GenerateError::Missing {
        line,
        path: format!("{path}{name}"),
    };
    let node = follow(template, path).ok_or_else(|| missing(""))?;
    let mut blocks = Vec::new();
    for name in &names {
        let block = member(node, name, depth_of_members(node)).ok_or_else(|| missing(&format!(".{name}")))?;
        blocks.push(moved(block, to));
    }
    if names.is_empty() {
        blocks.push(moved(node, to));
    }
    // Between resources, there are empty lines, as in template.yaml.
    let between = if path == "Resources" { "\n\n" } else { "\n" };
    let mut text = blocks.join(between);
    for replacement in parts {
        let (old, new) = replacement.split_once("=>").unwrap_or((replacement, ""));
        let (old, new) = (old.trim(), new.trim());
        if !text.contains(old) {
            let text = old.to_owned();
            return Err(GenerateError::NotReplaced { line, text });
        }
        let replaced = text.lines().filter_map(|line| {
            let replaced = line.replace(old, new);
            let replaced = replaced.trim_end();
            (!replaced.is_empty() || line.is_empty()).then(|| replaced.to_owned())
        });
        text = replaced.collect::<Vec<_>>().join("\n");
    }
    Ok(text)
}

/// Returns the lines at a path, with the comments above them.
fn follow<'a>(mut lines: &'a [&'a str], path: &str) -> Option<&'a [&'a str]> {
    // A selection is the end of a path, and can contain any character.
    let (names, selection) = match path.split_once('[') {
        Some((names, selection)) => (names, Some(selection.strip_suffix(']')?)),
        None => (path, None),
    };
    let mut depth = 0;
    for name in names.split('.') {
        lines = member(lines, name, depth)?;
        depth = depth_of_members(lines);
    }
    match selection {
        Some(text) => item(lines, text),
        None => Some(lines),
    }
}

/// Returns the lines of a member whose key has this indentation.
fn member<'a>(lines: &'a [&'a str], name: &str, depth: usize) -> Option<&'a [&'a str]> {
    let is_key = |line: &&str| {
        let key = line.trim_start();
        let key = key.strip_prefix("- ").unwrap_or(key);
        key.split(':').next() == Some(name) && depth_of(line) == depth
    };
    let start = lines.iter().position(is_key)?;
    Some(with_comments(lines, start, end(lines, start, depth)))
}

/// Returns the indentation of the keys in a member, or in an item of a list.
fn depth_of_members(node: &[&str]) -> usize {
    let mut lines = node.iter().filter(|line| !line.is_empty() && !is_comment(line));
    match lines.next() {
        Some(first) if first.trim_start().starts_with("- ") => depth_of(first),
        _ => lines.next().map_or(0, |line| depth_of(line)),
    }
}

/// Returns the innermost item of a list, or object of the dashboard, that contains a text.
fn item<'a>(lines: &'a [&'a str], text: &str) -> Option<&'a [&'a str]> {
    let starts = lines.iter().enumerate().filter(|(_, line)| {
        let line = line.trim_start();
        line.starts_with("- ") || line.starts_with("{\"type\"")
    });
    let items = starts.filter_map(|(start, line)| {
        let end = end(lines, start, indent(line));
        let has_text = lines[start..end].iter().any(|line| line.contains(text));
        has_text.then(|| (indent(line), with_comments(lines, start, end)))
    });
    items.max_by_key(|(indent, _)| *indent).map(|(_, item)| item)
}

/// Returns the end of the block that starts in a line: empty lines, and comments of the next block, do not belong to it.
fn end(lines: &[&str], start: usize, depth: usize) -> usize {
    let rest = lines[start + 1..].iter();
    let length = rest.take_while(|line| line.is_empty() || indent(line) > depth).count();
    let mut end = start + 1 + length;
    while end > start + 1 && lines[end - 1].is_empty() {
        end -= 1;
    }
    end
}

fn with_comments<'a>(lines: &'a [&'a str], start: usize, end: usize) -> &'a [&'a str] {
    let above = lines[..start].iter().rev();
    let comments = above
        .take_while(|line| is_comment(line) && !is_heading(line) && indent(line) == indent(lines[start]))
        .count();
    &lines[start - comments..end]
}

/// Returns the block with its first line at this indentation.
fn moved(block: &[&str], to: usize) -> String {
    let from = block.first().map_or(0, |line| indent(line));
    let lines = block.iter().map(|line| match line.is_empty() {
        true => String::new(),
        false => format!("{:to$}{}", "", &line[from.min(indent(line))..]),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Returns `true` for a comment that separates the parts of the template: `# ------ alarms`.
fn is_heading(line: &str) -> bool {
    line.trim_start().starts_with("# --")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the indentation of the key in a line, which can follow the `- ` of a list item.
fn depth_of(line: &str) -> usize {
    let is_item = line.trim_start().starts_with("- ");
    indent(line) + if is_item { 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::{
        super::policies::{Statement, statements},
        *,
    };

    const SOURCE: &str = include_str!("../../../attach/source.yaml");
    const TEMPLATE: &str = include_str!("../../../../template.yaml");

    #[test]
    fn the_committed_template_is_the_generated_one() {
        let generated = generate(SOURCE, TEMPLATE).unwrap();
        let committed = include_str!("../../../attach/template.yaml");
        assert!(
            generated == committed,
            "tools/attach/template.yaml is not current: run `cargo run -p local --example attach_template`"
        );
    }

    /// The attached table itself is neither read nor written.
    #[test]
    fn the_function_reads_the_stream_and_only_inserts_into_history() {
        let table = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders";
        let stream = format!("{table}/stream/2026-11-22T06:24:48.123");
        let parameters = [("TableName", "Orders"), ("StreamArn", &stream)];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let statements = statements(&generate(SOURCE, TEMPLATE).unwrap(), &parameters).unwrap();
        let of_database =
            |statement: &&Statement| statement.actions().iter().any(|action| action.starts_with("dynamodb:"));
        let of_role = statements
            .iter()
            .filter(|statement| statement.owner == "StreamRole" && statement.allows());
        let found = of_role
            .filter(of_database)
            .map(|statement| (statement.actions().join(" "), statement.resources().join(" ")));
        let history = "arn:aws:local:us-east-1:000000000000:History";
        let expected = [
            (
                "dynamodb:DescribeStream dynamodb:GetRecords dynamodb:GetShardIterator",
                stream.as_str(),
            ),
            ("dynamodb:DescribeTable", table),
            ("dynamodb:ListStreams", &format!("{table}/stream/*")),
            (
                "dynamodb:PartiQLInsert dynamodb:Query dynamodb:GetItem dynamodb:BatchGetItem",
                history,
            ),
        ];
        assert_eq!(
            found.collect::<Vec<_>>(),
            expected.map(|(actions, resource)| (actions.to_owned(), resource.to_owned()))
        );
        assert!(
            statements
                .iter()
                .all(|statement| statement.owner != "StreamRole" || statement.allows())
        );
    }

    const SMALL: &str = "\
A:
  # About one.
  One:
    x: 1 # not two

  # ------ part
  # About two.
  Two:
    List:
      - Sid: first
        Action: a
      # Second.
      - !If
        - Condition
        - Sid: second
          Action: b
B:
  One: other
";

    #[test]
    fn parts_come_with_their_comments_and_nothing_else() {
        for (directive, expected) in [
            ("#= A: One", "# About one.\nOne:\n  x: 1 # not two\n"),
            ("  #= A.One: x", "  x: 1 # not two\n"),
            ("#= B: One", "One: other\n"),
            ("#= A.Two.List[first]", "- Sid: first\n  Action: a\n"),
            ("#= A.Two.List[second]", "- Sid: second\n  Action: b\n"),
            ("#= A.Two.List[first]: Action", "Action: a\n"),
            ("#= A.One: x ;; # not two => ", "x: 1\n"),
            ("#= A.Two.List[second] ;; Action: b =>", "- Sid: second\n"),
            ("as it is", "as it is\n"),
        ] {
            assert_eq!(generate(directive, SMALL).as_deref(), Ok(expected), "{directive}");
        }
        assert!(
            generate("#= A: Two", SMALL)
                .unwrap()
                .starts_with("# About two.\nTwo:\n")
        );
    }

    #[test]
    fn a_part_or_a_text_that_is_missing_is_an_error() {
        for (directive, expected) in [
            ("#= C: One", "line 2 of the source: there is no C in template.yaml"),
            (
                "#= A: Three",
                "line 2 of the source: there is no A.Three in template.yaml",
            ),
            (
                "#= A.Two.List[third]",
                "line 2 of the source: there is no A.Two.List[third] in template.yaml",
            ),
            ("#= A: One ;; y => z", "line 2 of the source: `y` does not occur"),
        ] {
            let error = generate(&format!("text\n{directive}"), SMALL).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}

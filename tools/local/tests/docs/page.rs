//! Parser of a page into blocks, headings and links.

use std::collections::HashMap;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Parts of a page that are tested.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) blocks: Vec<Block>,
    /// Anchors that links to this page can use.
    pub(crate) anchors: Vec<String>,
    pub(crate) links: Vec<String>,
    pub(crate) codes: Vec<(usize, String)>,
}

/// A fenced block, or the commands of a `first` comment.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
    /// Texts of the comments before the block.
    pub(crate) comments: Vec<String>,
}

impl Page {
    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let mut page = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let mut slugs: HashMap<String, usize> = HashMap::new();
        let (mut heading, mut block, mut html) = (None::<String>, None::<Block>, None::<String>);
        let mut comments = Vec::new();
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = text[..range.start].lines().count() + 1;
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    let before = slugs.entry(slug.clone()).and_modify(|count| *count += 1).or_default();
                    page.anchors
                        .push(if *before == 0 { slug } else { format!("{slug}-{before}") });
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    let CodeBlockKind::Fenced(info) = &kind else {
                        panic!("{name}:{line}: an indented block has no language");
                    };
                    block = Some(Block {
                        line,
                        language: info.to_string(),
                        text: String::new(),
                        comments: std::mem::take(&mut comments),
                    });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.to_string());
                }
                Event::Start(Tag::HtmlBlock) => html = Some(String::new()),
                Event::End(TagEnd::HtmlBlock) => page.comment(&html.take().unwrap_or_default(), line, &mut comments),
                Event::Html(part) | Event::InlineHtml(part) => match &mut html {
                    Some(html) => html.push_str(&part),
                    None => page.comment(&part, line, &mut comments),
                },
                Event::Text(part) | Event::Code(part) => {
                    if text[range].starts_with('`') {
                        page.codes.push((line, part.to_string()));
                    }
                    if let Some(block) = &mut block {
                        block.text.push_str(&part);
                    } else if let Some(heading) = &mut heading {
                        heading.push_str(&part);
                    }
                }
                _ => {}
            }
        }
        assert!(comments.is_empty(), "{name}: no block follows {comments:?}");
        page
    }

    fn comment(&mut self, html: &str, line: usize, comments: &mut Vec<String>) {
        let html = html.trim();
        let Some(text) = html.strip_prefix("<!--").and_then(|html| html.strip_suffix("-->")) else {
            // Other HTML, such as pictures: its addresses are links, too.
            let words = html.split(['"', ' ']);
            self.links
                .extend(words.filter(|word| word.contains("docs/")).map(str::to_owned));
            return;
        };
        let text = text.trim();
        if let Some(commands) = text.strip_prefix("first:") {
            self.blocks.push(Block {
                line,
                language: "sh".to_owned(),
                text: format!("{}\n", commands.trim()),
                comments: Vec::new(),
            });
        } else if !["results", "end of results"].contains(&text) {
            // Between those two, `bench --page` replaces the text.
            comments.push(text.to_owned());
        }
    }
}

/// Returns the anchor that GitHub generates for a heading.
fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

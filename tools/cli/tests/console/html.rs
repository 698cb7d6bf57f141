//! Parser of HTML pages.

use std::cell::RefCell;

use html5ever::{
    TokenizerResult,
    tendril::StrTendril,
    tokenizer::{BufferQueue, StartTag, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
}

impl Tag {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The tokens of a page. Unlike in a browser, the content of titles and scripts is also parsed for tags, so that escaping
/// is checked everywhere.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) tags: Vec<Tag>,
    /// All text outside of tags.
    pub(crate) text: String,
    pub(crate) comments: usize,
    pub(crate) errors: Vec<String>,
}

impl Page {
    pub(crate) fn parse(html: &str) -> Self {
        let sink = Sink::default();
        let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
        let input = BufferQueue::default();
        input.push_back(StrTendril::from(html));
        assert!(matches!(tokenizer.feed(&input), TokenizerResult::Done) && input.is_empty());
        tokenizer.end();
        tokenizer.sink.0.into_inner()
    }

    pub(crate) fn named(&self, name: &str) -> Vec<&Tag> {
        self.tags.iter().filter(|tag| tag.name == name).collect()
    }

    pub(crate) fn links(&self) -> Vec<&str> {
        self.named("a").iter().filter_map(|tag| tag.attribute("href")).collect()
    }

    /// Returns the address of the link with this relation.
    pub(crate) fn link_to(&self, rel: &str) -> Option<&str> {
        self.find("a", "rel", rel)?.attribute("href")
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.find("input", "name", name)?.attribute("value")
    }

    pub(crate) fn find(&self, tag: &str, attribute: &str, value: &str) -> Option<&Tag> {
        let mut tags = self.named(tag).into_iter();
        tags.find(|tag| tag.attribute(attribute) == Some(value))
    }
}

#[derive(Default)]
struct Sink(RefCell<Page>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut page = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) if tag.kind == StartTag => page.tags.push(Tag {
                name: tag.name.to_string(),
                attributes: tag
                    .attrs
                    .iter()
                    .map(|attribute| (attribute.name.local.to_string(), attribute.value.to_string()))
                    .collect(),
            }),
            Token::CharacterTokens(text) => page.text.push_str(&text),
            Token::NullCharacterToken => page.text.push('\0'),
            Token::CommentToken(_) => page.comments += 1,
            Token::ParseError(error) => page.errors.push(error.into_owned()),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

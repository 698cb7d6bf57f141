use std::borrow::Cow;

use super::{InvalidJson, MAX_LEVELS, Reason, escape::unescaped};

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// A list.
    List,
    /// An object.
    Object,
}

/// Reads a JSON text token by token.
///
/// ```
/// use shared::json::Reader;
///
/// let mut reader = Reader::new(r#"{"a": [1, {"b": 2}], "c": "d"}"#);
/// reader.begin_object().unwrap();
/// assert_eq!(reader.next_member().unwrap().as_deref(), Some("a"));
/// assert_eq!(reader.skip().unwrap(), r#"[1, {"b": 2}]"#);
/// assert_eq!(reader.next_member().unwrap().as_deref(), Some("c"));
/// assert_eq!(reader.string().unwrap(), "d");
/// assert_eq!(reader.next_member().unwrap(), None);
/// reader.end().unwrap();
/// ```
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    levels: usize,
    /// An object or a list was just opened: its first part has no comma.
    is_first: bool,
}

impl<'a> Reader<'a> {
    /// Creates a reader of a text, which has to be one document.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            levels: 0,
            is_first: false,
        }
    }

    /// Returns the type of the next value.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if there is no value.
    pub fn kind(&mut self) -> Result<Kind, InvalidJson> {
        match self.next_byte() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::List),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Boolean),
            Some(b'n') => Ok(Kind::Null),
            Some(_) => Err(self.invalid(Reason::Value)),
            None => Err(self.invalid(Reason::End)),
        }
    }

    /// Enters an object. Its members follow.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if the next value is not an object, or is inside of [`MAX_LEVELS`] others.
    pub fn begin_object(&mut self) -> Result<(), InvalidJson> {
        self.begin(b'{', Reason::Object)
    }

    /// Reads the name of the next member, whose value follows. `None` is the end of the object.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if there is neither.
    pub fn next_member(&mut self) -> Result<Option<Cow<'a, str>>, InvalidJson> {
        if !self.next_part(b'}')? {
            self.levels -= 1;
            return Ok(None);
        }
        let quoted = self.name()?;
        let name = self.content(quoted)?;
        self.colon()?;
        Ok(Some(name))
    }

    /// Enters a list. Its elements follow.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if the next value is not a list, or is inside of [`MAX_LEVELS`] others.
    pub fn begin_list(&mut self) -> Result<(), InvalidJson> {
        self.begin(b'[', Reason::List)
    }

    /// Returns `true` if an element follows, and `false` at the end of the list.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if there is neither.
    pub fn next_element(&mut self) -> Result<bool, InvalidJson> {
        let follows = self.next_part(b']')?;
        self.levels -= usize::from(!follows);
        Ok(follows)
    }

    /// Reads a string.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if the next value is not a valid string.
    pub fn string(&mut self) -> Result<Cow<'a, str>, InvalidJson> {
        let quoted = self.quoted()?;
        self.content(quoted)
    }

    /// Reads a number, and returns its text.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if the next value is not a number.
    pub fn number(&mut self) -> Result<&'a str, InvalidJson> {
        self.next_byte();
        let start = self.at;
        self.accept(b'-');
        // A leading zero stands alone.
        if !self.accept(b'0') {
            self.digits()?;
        }
        if self.accept(b'.') {
            self.digits()?;
        }
        if self.accept(b'e') || self.accept(b'E') {
            let _ = self.accept(b'+') || self.accept(b'-');
            self.digits()?;
        }
        self.is_first = false;
        Ok(&self.text[start..self.at])
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if the next value is neither.
    pub fn boolean(&mut self) -> Result<bool, InvalidJson> {
        match self.next_byte() {
            Some(b't') => self.word("true", Reason::Boolean).map(|()| true),
            _ => self.word("false", Reason::Boolean).map(|()| false),
        }
    }

    /// Reads `null`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if the next value is another one.
    pub fn null(&mut self) -> Result<(), InvalidJson> {
        self.next_byte();
        self.word("null", Reason::Null)
    }

    /// Skips the next value, and returns its text. The value can have any number of levels.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if the value is not JSON. A string can contain an escape that [`Self::string`] rejects: half of a
    /// surrogate pair.
    pub fn skip(&mut self) -> Result<&'a str, InvalidJson> {
        self.skip_names(|_| {})
    }

    /// Skips the next value, and passes the names of all members in it to `take`, also those before an error.
    pub(super) fn skip_names(&mut self, mut take: impl FnMut(Cow<'a, str>)) -> Result<&'a str, InvalidJson> {
        self.next_byte();
        let start = self.at;
        // Ends of the objects and lists that are open: on the heap, so that no text fills the stack.
        let mut open = Vec::new();
        loop {
            match self.kind()? {
                kind @ (Kind::Object | Kind::List) => {
                    self.open();
                    open.push(if kind == Kind::Object { b'}' } else { b']' });
                }
                Kind::String => drop(self.quoted()?),
                Kind::Number => drop(self.number()?),
                Kind::Boolean => drop(self.boolean()?),
                Kind::Null => self.null()?,
            }
            loop {
                let Some(end) = open.last().copied() else {
                    return Ok(&self.text[start..self.at]);
                };
                if self.next_part(end)? {
                    if end == b'}' {
                        let quoted = self.name()?;
                        if let Ok(name) = self.content(quoted) {
                            take(name);
                        }
                        self.colon()?;
                    }
                    break;
                }
                open.pop();
            }
        }
    }

    /// Checks that nothing but white space follows the document.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if something follows.
    pub fn end(&mut self) -> Result<(), InvalidJson> {
        match self.next_byte() {
            None => Ok(()),
            Some(_) => Err(self.invalid(Reason::TrailingText)),
        }
    }

    /// Returns the number of bytes that were read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns an error at this place.
    pub(super) fn invalid(&self, reason: Reason) -> InvalidJson {
        InvalidJson::at(&self.text.as_bytes()[..self.at], reason)
    }

    fn begin(&mut self, start: u8, otherwise: Reason) -> Result<(), InvalidJson> {
        self.next_is(start, otherwise)?;
        if self.levels == MAX_LEVELS {
            return Err(self.invalid(Reason::Levels));
        }
        self.levels += 1;
        self.open();
        Ok(())
    }

    fn open(&mut self) {
        self.at += 1;
        self.is_first = true;
    }

    /// Moves to the next member or element. `false` at the end of the object or list, which is read.
    fn next_part(&mut self, end: u8) -> Result<bool, InvalidJson> {
        let is_first = std::mem::take(&mut self.is_first);
        match self.next_byte() {
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            Some(_) if is_first => Ok(true),
            _ => {
                self.next_is(b',', Reason::Comma)?;
                self.at += 1;
                Ok(true)
            }
        }
    }

    fn name(&mut self) -> Result<(&'a str, bool), InvalidJson> {
        self.next_is(b'"', Reason::Name)?;
        self.quoted()
    }

    fn colon(&mut self) -> Result<(), InvalidJson> {
        self.next_is(b':', Reason::Colon)?;
        self.at += 1;
        Ok(())
    }

    /// Skips white space, and checks the byte behind it.
    fn next_is(&mut self, expected: u8, otherwise: Reason) -> Result<(), InvalidJson> {
        match self.next_byte() {
            Some(byte) if byte == expected => Ok(()),
            Some(_) => Err(self.invalid(otherwise)),
            None => Err(self.invalid(Reason::End)),
        }
    }

    /// Reads a string. Returns the text between its quotes, and `true` if that has escapes.
    fn quoted(&mut self) -> Result<(&'a str, bool), InvalidJson> {
        if self.next_byte() != Some(b'"') {
            return Err(self.invalid(Reason::String));
        }
        self.at += 1;
        self.is_first = false;
        let (start, mut is_escaped) = (self.at, false);
        loop {
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
            let rest = &self.text.as_bytes()[self.at..];
            self.at += rest.iter().position(is_special).unwrap_or(rest.len());
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((&self.text[start..self.at - 1], is_escaped));
                }
                Some(b'\\') => {
                    is_escaped = true;
                    self.at += 1;
                    self.escape()?;
                }
                Some(_) => return Err(self.invalid(Reason::ControlCharacter)),
                None => return Err(self.invalid(Reason::End)),
            }
        }
    }

    fn escape(&mut self) -> Result<(), InvalidJson> {
        let length = match self.byte() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 1,
            Some(b'u') => {
                let digits = self.text.as_bytes().get(self.at + 1..self.at + 5);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.invalid(Reason::Escape));
                }
                5
            }
            Some(_) => return Err(self.invalid(Reason::Escape)),
            None => return Err(self.invalid(Reason::End)),
        };
        self.at += length;
        Ok(())
    }

    fn content(&self, (quoted, is_escaped): (&'a str, bool)) -> Result<Cow<'a, str>, InvalidJson> {
        let text = match is_escaped {
            false => Some(Cow::Borrowed(quoted)),
            true => unescaped(quoted).map(Cow::Owned),
        };
        text.ok_or_else(|| self.invalid(Reason::Escape))
    }

    fn digits(&mut self) -> Result<(), InvalidJson> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        match self.at > start {
            true => Ok(()),
            false => Err(self.invalid(Reason::Number)),
        }
    }

    fn word(&mut self, word: &str, otherwise: Reason) -> Result<(), InvalidJson> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.invalid(otherwise));
        }
        self.at += word.len();
        self.is_first = false;
        Ok(())
    }

    fn accept(&mut self, byte: u8) -> bool {
        let is_next = self.byte() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space, and returns the byte behind it.
    fn next_byte(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }
}

//! What a proof shows of a leaf, and what it withholds.

use seal::{
    format::{
        FormatError,
        commitment::content_root,
        leaf::{Kind, Leaf},
        member::Namespace,
    },
    proof::{
        document::{Digits, Disclosed},
        value::ShownValue,
    },
};
use shared::domain::AttributeValue;
use thiserror::Error;

use crate::{
    keys::EntityKeys,
    members::{Content, Member, commitments, salt},
};

/// A leaf of a proof, before its place in the tree is proven.
pub(crate) struct Shown {
    pub(crate) leaf: Leaf,
    pub(crate) index: u64,
    pub(crate) disclosed: Vec<Disclosed>,
    pub(crate) withheld: Vec<Digits>,
}

impl Shown {
    /// Returns the leaf of members, `None` if a path has no key: then it was not there when the leaf was sealed. An operation has an id.
    pub(crate) fn new(
        (kind, version, operation): (Kind, u64, Option<[u8; 16]>),
        members: &[Member],
        keys: &EntityKeys,
        hiding: &mut Hiding<'_>,
    ) -> Result<Option<Self>, NotShown> {
        let Some(commitments) = commitments(members, keys, version, operation)? else {
            return Ok(None);
        };
        let (mut disclosed, mut withheld) = (Vec::new(), Vec::new());
        for (member, hash) in members.iter().zip(&commitments) {
            let salt = salt(keys, &member.path, version, operation)?;
            match (&member.content, salt, hiding.hides(member)?) {
                (Content::Value(value), Some(salt), false) => {
                    disclosed.push(Disclosed::new(member.path.clone(), salt, ShownValue(value.clone())));
                }
                _ => withheld.push(Digits(*hash)),
            }
        }
        withheld.sort_unstable();
        let leaf = Leaf {
            kind,
            tag: keys.tag()?,
            version,
            content: content_root(commitments),
        };
        Ok(Some(Self {
            leaf,
            index: 0,
            disclosed,
            withheld,
        }))
    }
}

/// Paths that are hidden, and which of them a version has.
pub(crate) struct Hiding<'a>(Vec<(&'a [String], bool)>);

/// Reason why a leaf cannot be shown with hidden paths.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotShown {
    /// A value has no canonical form.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// No version has it.
    #[error("no version of the proof has the path")]
    NoPath(Vec<String>),
    /// It is below a list, whose path follows.
    #[error("the path is below a list, which is sealed as a whole")]
    BelowList(Vec<String>, Vec<String>),
}

impl<'a> Hiding<'a> {
    pub(crate) fn new(paths: &'a [Vec<String>]) -> Self {
        Self(paths.iter().map(|path| (path.as_slice(), false)).collect())
    }

    /// Returns `true` if a member is hidden: an attribute at a path or below it, or metadata of this name.
    fn hides(&mut self, member: &Member) -> Result<bool, NotShown> {
        let names = &member.path.names;
        let is_list = matches!(member.content, Content::Value(AttributeValue::L(_)));
        let mut is_hidden = false;
        for (path, is_used) in &mut self.0 {
            if is_list && path.len() > names.len() && path.starts_with(names) {
                return Err(NotShown::BelowList(path.to_vec(), names.clone()));
            }
            let is_at = match member.path.namespace {
                Namespace::Attribute => names.starts_with(path),
                Namespace::Metadata => names == path,
            };
            (is_hidden, *is_used) = (is_hidden || is_at, *is_used || is_at);
        }
        Ok(is_hidden)
    }

    /// Checks that each path is one of a version.
    pub(crate) fn check(self) -> Result<(), NotShown> {
        match self.0.iter().find(|(_, is_used)| !is_used) {
            Some((path, _)) => Err(NotShown::NoPath(path.to_vec())),
            None => Ok(()),
        }
    }
}

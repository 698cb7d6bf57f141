//! Changes between two items, as a tree of their paths in which equal parts are folded.
//!
//! ```text
//! ▾ Lines  2 changes
//!     ▸ 3 unchanged elements
//!     [3]  moved [0] → [3]
//!   ▾ [4] sku A-17  1 change
//!         Price  − 20  + 25
//! ```
//!
//! The path of a change refers to the item at its step. In the tree, an element has its index in the new item, and a removed one that of the
//! old item. A page has the changes from one index on, so that its size is limited.

mod sides;

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use item_diff::{
    alignment::identities,
    change::{Change, Changes, Kind},
    detail::{Detail, TextChange},
    path::{Path, Step},
};
use maud::{Markup, html};
use shared::domain::{AttributeValue, Item, view::VersionView};

use crate::{
    address,
    page::{count, deleted, more},
    record,
    value::{self, DisplayLimits},
};

/// Maximum number of changes of a page.
pub(crate) const PAGE: usize = 100;
/// Maximum number of changes that are shown with long values.
const MAX_DETAILED: usize = 20;
/// Maximum number of equal values of one map or list, and of a page.
const MAX_EQUAL: (usize, usize) = (30, 300);

type Value = AttributeValue;
type Members = HashMap<String, Value>;
type Pair<'v> = (&'v Value, &'v Value);

/// A page of changes.
pub(crate) struct Diff<'a> {
    changes: &'a [Change<'a>],
    /// Indexes of the changes of the page.
    page: Range<usize>,
    limits: DisplayLimits,
    /// Number of equal values that can still be shown.
    equal: Cell<usize>,
    /// Path to mark, until it is marked.
    pub(crate) path: Cell<Option<&'a Path>>,
    /// Address of the comparison, for links.
    pub(crate) address: Option<&'a str>,
}

impl<'a> Diff<'a> {
    /// Creates the page that begins with the change at an index.
    pub(crate) fn new(changes: &'a [Change<'a>], start: usize) -> Self {
        let page = start.min(changes.len())..start.saturating_add(PAGE).min(changes.len());
        let is_short = page.len() <= MAX_DETAILED;
        Self {
            changes,
            page,
            limits: [DisplayLimits::CELL, DisplayLimits::ITEM][usize::from(is_short)],
            equal: Cell::new(MAX_EQUAL.1),
            path: Cell::default(),
            address: None,
        }
    }

    /// Renders the changes between two versions, of which these items are compared.
    pub(crate) fn view(&self, coarse: &[Path], versions: [&VersionView; 2], items: [&Item; 2]) -> Markup {
        let total = self.changes.len();
        let side = |view: &VersionView| {
            Some(html! {
                a href=(address::version("/version", view.entity.as_str(), view.version.get())) { "Version " (view.version) }
                (deleted(view.deleted))
                details { summary { (record::created(view)) } dl.facts { (record::facts(view, "Created")) } }
            })
        };
        let page = |start: usize| {
            html! { @match self.address {
                Some(address) => a href={ (address) "&after=" (start) } { "Changes " (start + 1) " to " (total.min(start + PAGE)) " of " (total) },
                None => (more(total - start, " changes")),
            } }
        };
        html! {
            section.diff aria-label="Changes" {
                div.bar {
                    p { @if total == 0 { "No differences" } @else { (count(total as u64, "change")) } }
                    button.layout type="button" hidden aria-pressed="false" { "Side by side" }
                }
                (sides::sides(side(versions[0]), side(versions[1])))
                @if !coarse.is_empty() {
                    p.note {
                        "These lists are too long and too different: more than necessary is shown as changed: "
                        @for (index, path) in coarse.iter().enumerate() { @if index > 0 { ", " } (value::path(path)) }
                    }
                }
                (self.tree(items))
                nav.pages aria-label="Pages of changes" {
                    @if self.page.start > 0 { (page(self.page.start.saturating_sub(PAGE))) }
                    @if self.page.end < total { (page(self.page.end)) }
                }
            }
        }
    }

    /// Renders the changes between these items.
    pub(crate) fn tree(&self, items: [&Item; 2]) -> Markup {
        self.members(&Path::default(), items[0], items[1], 0..self.changes.len(), "attribute")
    }

    /// Renders the members of a map, or the attributes of an item.
    fn members(&self, at: &Path, old: &Members, new: &Members, changes: Range<usize>, thing: &str) -> Markup {
        let mut equal: BTreeMap<_, _> = new.iter().collect();
        let parts = self
            .parts(at, changes)
            .into_iter()
            .filter_map(|(step, changes)| match step {
                Step::Name(name) => Some((name, changes)),
                Step::Index(_) => None,
            });
        html! {
            ul.tree {
                @for (name, changes) in parts {
                    @let _ = equal.remove(name);
                    (self.part(&at.with(Step::Name(name.clone())), None, old.get(name).zip(new.get(name)), changes))
                }
                (self.equal(thing, &equal.into_iter().map(|(name, value)| (Step::Name(name.clone()), value)).collect::<Vec<_>>()))
            }
        }
    }

    /// Renders the elements of a list in their new order, each removed one before the element that followed it.
    fn elements(&self, at: &Path, old: &[Value], new: &[Value], changes: Range<usize>) -> Markup {
        // An old element is its index. A new one is the index of its change, after all old ones.
        let mut order: Vec<usize> = (0..old.len()).collect();
        let (mut removed, mut own, mut nested) = (BTreeMap::new(), HashMap::new(), changes.start);
        let take = |order: &mut Vec<usize>, at: usize| (at < order.len()).then(|| order.remove(at));
        for (index, change) in self.changes[..changes.end].iter().enumerate().skip(changes.start) {
            let to = last_index(&change.path);
            let element = match &change.kind {
                _ if change.path.0.len() > at.0.len() + 1 => break,
                Kind::Changed(..) => break,
                Kind::Removed(_) => {
                    removed.extend(take(&mut order, to).map(|element| (element, index)));
                    None
                }
                Kind::Moved(from, _) => take(&mut order, last_index(from)),
                Kind::Added(_) => Some(old.len() + index),
            };
            if let Some(element) = element {
                order.insert(to.min(order.len()), element);
                own.insert(element, index);
            }
            nested = index + 1;
        }
        let nested: HashMap<_, _> = self.parts(at, nested..changes.end).into_iter().collect();
        let gone = |(element, change)| Ok(self.leaf(&at.with(Step::Index(element)), change, None));
        let mut rows = Vec::new();
        for (index, (element, value)) in order.into_iter().zip(new).enumerate() {
            let (step, change) = (Step::Index(index), own.get(&element));
            if change.is_none() {
                let later = removed.split_off(&element);
                rows.extend(std::mem::replace(&mut removed, later).into_iter().map(gone));
            }
            let origin = change.and(Some(element)).filter(|element| *element < old.len());
            rows.push(match (nested.get(&step), change) {
                (Some(changes), _) => Ok(self.part(
                    &at.with(step),
                    origin,
                    old.get(element).map(|old| (old, value)),
                    changes.clone(),
                )),
                (None, Some(change)) => Ok(self.leaf(&at.with(step), *change, origin)),
                (None, None) => Err((step, value)),
            });
        }
        rows.extend(removed.into_iter().map(gone));
        html! {
            ul.tree {
                @for rows in rows.chunk_by(|a, b| a.is_err() && b.is_err()) {
                    @match &rows[0] {
                        Ok(row) => (row),
                        Err(_) => (self.equal("element", &rows.iter().filter_map(|row| row.clone().err()).collect::<Vec<_>>())),
                    }
                }
            }
        }
    }

    /// Splits changes below a path by their next step.
    fn parts(&self, at: &Path, changes: Range<usize>) -> Vec<(&Step, Range<usize>)> {
        let mut parts: Vec<(&Step, Range<usize>)> = Vec::new();
        for index in changes {
            match (self.changes[index].path.0.get(at.0.len()), parts.last_mut()) {
                (Some(step), Some((last, changes))) if *last == step => changes.end = index + 1,
                (Some(step), _) => parts.push((step, index..index + 1)),
                (None, _) => {}
            }
        }
        parts
    }

    /// Renders a value that changed, or of which parts changed. `origin` is the old index of an element that moved.
    fn part(&self, at: &Path, origin: Option<usize>, values: Option<Pair<'_>>, changes: Range<usize>) -> Markup {
        use AttributeValue::{L, M};
        if changes.start >= self.page.end || changes.end <= self.page.start {
            return Markup::default();
        }
        let number = changes.len() as u64;
        let inner = match values {
            _ if self.changes[changes.start].path.0.len() == at.0.len() => return self.leaf(at, changes.start, origin),
            Some((M(old), M(new))) => self.members(at, old, new, changes, "member"),
            Some((L(old), L(new))) => self.elements(at, old, new, changes),
            _ => return Markup::default(),
        };
        html! {
            li id=[self.mark(at, false)] {
                details open {
                    summary { (at.0.last().map(step_label).unwrap_or_default()) (hint(values)) " " span.muted { (count(number, "change")) } (moved(at, origin)) }
                    (inner)
                }
            }
        }
    }

    /// Renders a change of a whole value.
    fn leaf(&self, at: &Path, index: usize, origin: Option<usize>) -> Markup {
        if !self.page.contains(&index) {
            return Markup::default();
        }
        let change = &self.changes[index];
        let side = |value| Some(value::value(value, self.limits));
        let values = match &change.kind {
            Kind::Added(value) => sides::sides(None, side(value)),
            Kind::Removed(value) => sides::sides(side(value), None),
            Kind::Moved(_, value) => value::value(value, DisplayLimits::CELL),
            Kind::Changed(from, to) => match Detail::of(from, to) {
                Detail::Json(values) => self.json(*values, from, to),
                detail => sides::changed((from, to), &detail, self.limits),
            },
        };
        html! {
            li.change id=[self.mark(at, true)] tabindex="-1" {
                p { (self.link(at)) " " @if origin.is_none() { span.tag { (change.kind()) } } (moved(at, origin)) }
                (values)
            }
        }
    }

    /// Renders the changes within JSON in a text.
    fn json(&self, values: (Value, Value), from: &Value, to: &Value) -> Markup {
        use AttributeValue::{M, S};
        let items = match values {
            (M(old), M(new)) => [old, new],
            (old, new) => [old, new].map(|value| HashMap::from([("JSON".to_owned(), value)])),
        };
        let [old, new] = items.map(Item::from);
        let Changes { changes, .. } = Changes::between(Some(&old), Some(&new));
        if let (true, S(from), S(to)) = (changes.is_empty(), from, to) {
            return html! { p.muted { "The JSON is equal, the text differs" } (sides::text(&TextChange::between(from, to))) };
        }
        let diff = Diff::new(&changes, 0);
        diff.equal.swap(&self.equal);
        let inner = diff.members(&Path::default(), &old, &new, 0..changes.len(), "member");
        diff.equal.swap(&self.equal);
        html! {
            p.muted { "JSON in a text: " (count(changes.len() as u64, "change")) }
            (inner)
            (more(changes.len().saturating_sub(PAGE), " changes"))
        }
    }

    fn equal(&self, thing: &str, values: &[(Step, &Value)]) -> Markup {
        let shown = values.len().min(MAX_EQUAL.0).min(self.equal.get());
        self.equal.set(self.equal.get() - shown);
        let title = count(values.len() as u64, &format!("unchanged {thing}"));
        html! {
            @if shown > 0 {
                li.equal {
                    details {
                        summary { (title) }
                        dl.facts { @for (step, value) in &values[..shown] { dt { (step_label(step)) } dd { (value::value(value, DisplayLimits::CELL)) } } }
                        (more(values.len() - shown, ""))
                    }
                }
            } @else if !values.is_empty() { li.equal.muted { (title) } }
        }
    }

    /// Renders the last step of a path, as a link to the path.
    fn link(&self, at: &Path) -> Markup {
        let label = at.0.last().map(step_label).unwrap_or_default();
        match self.address.and_then(|address| address::at_path(address, at)) {
            Some(link) => html! { a href={ (link) "#path" } title="Link to this path" { (label) } },
            None => label,
        }
    }

    /// Returns the id of the element that shows the path of the page.
    fn mark(&self, at: &Path, is_whole: bool) -> Option<&'static str> {
        let path = self
            .path
            .get()
            .filter(|path| *path == at || is_whole && path.0.starts_with(&at.0));
        path.map(|_| self.path.take()).map(|_| "path")
    }
}

fn last_index(path: &Path) -> usize {
    match path.0.last() {
        Some(Step::Index(index)) => *index,
        _ => 0,
    }
}

fn step_label(step: &Step) -> Markup {
    match step {
        Step::Name(name) => value::name(name),
        Step::Index(index) => html! { span.number { "[" (index) "]" } },
    }
}

fn moved(at: &Path, origin: Option<usize>) -> Markup {
    html! { @if let Some(origin) = origin { " " span.tag.moved { "moved [" (origin) "] → [" (last_index(at)) "]" } } }
}

/// Renders the member by which a map in a list is known, such as its `id`.
fn hint(values: Option<Pair<'_>>) -> Markup {
    let Some((_, AttributeValue::M(members))) = values else {
        return Markup::default();
    };
    let mut known = identities().filter_map(|name| Some((name, members.get(name)?)));
    html! { @if let Some((name, value)) = known.next() { " " span.muted { (name) " " (value::value(value, DisplayLimits::CELL)) } } }
}

//! Alignment of two lists: which elements stay, change in place, or move.
//!
//! Elements with the same token are matched: equal values, and values of one identity. The alignment minimizes the number of
//! changes: an insertion, a removal, a move and a change of one member count one each.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    ops::Range,
    sync::OnceLock,
    time::{Duration, Instant},
};

use similar::{Algorithm, capture_diff_slices_deadline};

use crate::tree::{Children, Members, Node};

/// Members that identify an element of a list, in this order.
const IDENTITIES: [&str; 5] = ["id", "ID", "key", "sku", "name"];
/// Members that the program adds, which take precedence.
static CONFIGURED: OnceLock<Vec<String>> = OnceLock::new();

/// Adds members that identify an element of a list, for all comparisons of this process. Only the first call counts.
pub fn identify_by(members: Vec<String>) {
    let _ = CONFIGURED.set(members);
}

/// Returns the members that identify an element of a list, in their order.
pub fn identities() -> impl Iterator<Item = &'static str> {
    let configured = CONFIGURED.get().into_iter().flatten().map(String::as_str);
    configured.chain(IDENTITIES)
}

/// Maximum number of members that one alignment compares.
const MAX_COST: usize = 1_000_000;
/// Time after which longer lists are compared coarsely.
const TIME: Duration = Duration::from_millis(50);
/// Costs, of which 64 are half a change.
const HALF: u32 = 64;

/// Alignment of two lists. The elements of the first list that are in no pair are removed, those of the second list are added.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Alignment {
    /// Pairs of elements in their order.
    pub(crate) kept: Vec<(usize, usize)>,
    /// Pairs of elements with another order.
    pub(crate) moved: Vec<(usize, usize)>,
    /// `true` if the lists are too long and too different for the lowest number of changes.
    pub(crate) is_coarse: bool,
}

/// Aligns two lists.
pub(crate) fn align(a: &[Node<'_>], b: &[Node<'_>]) -> Alignment {
    let (left, right) = tokens(a, b);
    let alignment = align_tokens(a, b, &left, &right);
    let pairs = alignment.kept.iter().chain(&alignment.moved);
    let mut doubtful = pairs.filter(|(i, j)| matches!(left[*i], Token::Identity(..)) && !is_one_change(&a[*i], &b[*j]));
    match doubtful.next() {
        Some(_) => without_exchanged(a, b, &left, &right).unwrap_or(alignment),
        None => alignment,
    }
}

/// Aligns two lists without identities that were exchanged: both elements of such a pair differ from another element in one member,
/// the identity. Returns `None` if there are none.
fn without_exchanged(a: &[Node<'_>], b: &[Node<'_>], left: &[Token], right: &[Token]) -> Option<Alignment> {
    let mut tokens = (values(a), values(b));
    let plain = align_tokens(a, b, &tokens.0, &tokens.1);
    let pairs = plain
        .kept
        .iter()
        .chain(&plain.moved)
        .filter(|(i, j)| is_one_change(&a[*i], &b[*j]));
    let (of_left, of_right): (HashMap<_, _>, HashMap<_, _>) = pairs.map(|(i, j)| ((*i, *j), (*j, *i))).unzip();
    let places: HashMap<_, _> = right.iter().enumerate().map(|(j, token)| (*token, j)).collect();
    let mut is_exchanged = false;
    for (i, token) in left
        .iter()
        .enumerate()
        .filter(|(_, token)| matches!(token, Token::Identity(..)))
    {
        let j = places[token];
        let exchanged = |other: Option<&usize>, own: usize| other.is_some_and(|other| *other != own);
        if exchanged(of_left.get(&i), j) && exchanged(of_right.get(&j), i) {
            is_exchanged = true;
        } else {
            (tokens.0[i], tokens.1[j]) = (*token, *token);
        }
    }
    is_exchanged.then(|| align_tokens(a, b, &tokens.0, &tokens.1))
}

/// Returns `true` if two elements are equal, or differ in one member.
fn is_one_change(a: &Node<'_>, b: &Node<'_>) -> bool {
    match (&a.children, &b.children) {
        (Children::Map(a), Children::Map(b)) => compared(a, b).0 <= 1,
        _ => a.number == b.number,
    }
}

fn align_tokens(a: &[Node<'_>], b: &[Node<'_>], left: &[Token], right: &[Token]) -> Alignment {
    let surplus = surplus(left, right);
    let is_small = a.len().saturating_mul(b.len()) <= MAX_COST / 8;
    let anchors = if is_small { Vec::new() } else { anchors(left, right) };
    let mut budget = MAX_COST;
    let mut from = (0, 0);
    let gaps = anchors.into_iter().chain([(a.len(), b.len())]).map(|to| {
        let gap = Gap::new(a, b, (left, right), from..to, &mut budget);
        from = (to.0 + 1, to.1 + 1);
        (gap, to)
    });
    let gaps: Vec<_> = gaps.collect();
    let is_coarse = gaps.iter().any(|(gap, _)| gap.costs.is_err());
    // The exact saving depends on the other pairs, so all estimates are tried.
    let estimates = [(true, true), (true, false), (false, true), (false, false)];
    let estimates = estimates.into_iter().map(|saves| {
        let mut kept = Vec::new();
        for (gap, to) in &gaps {
            gap.align(&surplus, saves, &mut kept);
            kept.extend(Some(*to).filter(|to| *to != (a.len(), b.len())));
        }
        let moved = moved(left, right, &kept);
        let changed = kept.iter().filter(|(i, j)| left[*i] != right[*j]).count();
        let pairs = kept.len() + moved.len();
        let count = changed + moved.len() + a.len() - pairs + b.len() - pairs;
        (count, Alignment { kept, moved, is_coarse })
    });
    estimates
        .min_by_key(|(count, _)| *count)
        .map(|(_, alignment)| alignment)
        .unwrap_or_default()
}

/// Returns the pairs of equal tokens that are in no pair yet.
fn moved(left: &[Token], right: &[Token], kept: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let (used_left, used_right): (HashSet<_>, HashSet<_>) = kept.iter().copied().unzip();
    let mut free: HashMap<Token, Vec<usize>> = HashMap::new();
    for index in (0..left.len()).rev().filter(|index| !used_left.contains(index)) {
        free.entry(left[index]).or_default().push(index);
    }
    let unpaired = (0..right.len()).filter(|index| !used_right.contains(index));
    unpaired
        .filter_map(|to| Some((free.get_mut(&right[to])?.pop()?, to)))
        .collect()
}

/// Key by which two elements match: a value, or an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Token {
    Value(u32),
    Identity(usize, u32),
}

fn values(nodes: &[Node<'_>]) -> Vec<Token> {
    nodes.iter().map(|node| Token::Value(node.number)).collect()
}

/// Returns the token of each element. Maps that differ have one identity if they have the same value of a member such as `id`, which no
/// other element of their lists has.
fn tokens(a: &[Node<'_>], b: &[Node<'_>]) -> (Vec<Token>, Vec<Token>) {
    let (mut left, mut right) = (values(a), values(b));
    for (rank, name) in identities().enumerate() {
        let own = (unmatched(a, &left, &right, name), unmatched(b, &right, &left, name));
        for (number, index) in &own.0 {
            if let (Some(i), Some(Some(j))) = (index, own.1.get(number)) {
                left[*i] = Token::Identity(rank, *number);
                right[*j] = left[*i];
            }
        }
    }
    (left, right)
}

/// Returns the elements by the number of a member's value, `None` if it is matched already or two elements have it.
fn unmatched(nodes: &[Node<'_>], tokens: &[Token], others: &[Token], name: &str) -> HashMap<u32, Option<usize>> {
    let others: HashSet<_> = others.iter().collect();
    unique(
        nodes
            .iter()
            .zip(tokens)
            .enumerate()
            .filter_map(|(index, (node, token))| {
                let Children::Map(members) = &node.children else {
                    return None;
                };
                let member = members.get(name)?;
                let is_leaf = matches!(member.children, Children::None);
                is_leaf.then(|| (member.number, (!others.contains(token)).then_some(index)))
            }),
    )
}

/// Returns the index of each key, `None` if two elements have it.
fn unique<K: Eq + Hash>(keys: impl Iterator<Item = (K, Option<usize>)>) -> HashMap<K, Option<usize>> {
    let mut found = HashMap::new();
    for (key, index) in keys {
        found.entry(key).and_modify(|index| *index = None).or_insert(index);
    }
    found
}

/// Returns how many more elements with a token the first list has. A negative number counts those of the second list.
fn surplus(left: &[Token], right: &[Token]) -> HashMap<Token, i32> {
    let mut surplus = HashMap::new();
    for (tokens, one) in [(left, 1), (right, -1)] {
        for token in tokens {
            *surplus.entry(*token).or_insert(0) += one;
        }
    }
    surplus
}

/// Returns the longest sequence of tokens that both lists have once, in the order of both.
fn anchors(left: &[Token], right: &[Token]) -> Vec<(usize, usize)> {
    let once = |tokens: &[Token]| unique(tokens.iter().enumerate().map(|(index, token)| (*token, Some(index))));
    let (left_once, right_once) = (once(left), once(right));
    let pairs = left.iter().enumerate().filter_map(|(index, token)| {
        left_once[token]?;
        Some((index, (*right_once.get(token)?)?))
    });
    let pairs: Vec<_> = pairs.collect();
    // The last element of the best sequence of each length, and the element before each.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::with_capacity(pairs.len()));
    for (number, (_, to)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *to);
        before.push(length.checked_sub(1).map(|length| ends[length]));
        match ends.get_mut(length) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    let mut sequence = Vec::new();
    let mut next = ends.last().copied();
    while let Some(number) = next {
        sequence.push(pairs[number]);
        next = before[number];
    }
    sequence.reverse();
    sequence
}

/// Parts of two lists between two pairs.
struct Gap<'t> {
    left: &'t [Token],
    right: &'t [Token],
    /// Pairs of equal tokens at the start.
    start: Range<Pair>,
    /// The parts without equal tokens at the start and at the end.
    inner: Range<Pair>,
    /// Pairs of equal tokens at the end.
    end: Range<Pair>,
    /// The [difference] of each pair of the inner parts, or the pairs to keep if there are too many.
    costs: Result<Vec<Option<u32>>, Vec<Pair>>,
}

type Pair = (usize, usize);

impl<'t> Gap<'t> {
    /// Trims the parts, and compares the pairs of their elements while the budget of comparisons lasts.
    fn new(
        a: &[Node<'_>],
        b: &[Node<'_>],
        (left, right): (&'t [Token], &'t [Token]),
        gap: Range<Pair>,
        budget: &mut usize,
    ) -> Self {
        let (mut from, mut to) = (gap.start, gap.end);
        while from.0 < to.0 && from.1 < to.1 && left[from.0] == right[from.1] {
            from = (from.0 + 1, from.1 + 1);
        }
        while from.0 < to.0 && from.1 < to.1 && left[to.0 - 1] == right[to.1 - 1] {
            to = (to.0 - 1, to.1 - 1);
        }
        let mut new = Self {
            left,
            right,
            start: gap.start..from,
            inner: from..to,
            end: to..gap.end,
            costs: Err(Vec::new()),
        };
        let members = |nodes: &[Node<'_>]| nodes.iter().map(Node::members).sum::<usize>();
        let (left_part, right_part) = (&a[from.0..to.0], &b[from.1..to.1]);
        let cost = left_part.len() * members(right_part) + right_part.len() * members(left_part);
        new.costs = match budget.checked_sub(cost) {
            None => Err(new.by_tokens(a, b)),
            Some(rest) => {
                *budget = rest;
                let pairs = (from.0..to.0).flat_map(|i| (from.1..to.1).map(move |j| (i, j)));
                let cost = |(i, j)| match (left[i], right[j]) {
                    (left, right) if left == right => Some(0),
                    (Token::Identity(..), _) | (_, Token::Identity(..)) => None,
                    _ => difference(&a[i], &b[j]),
                };
                Ok(pairs.map(cost).collect())
            }
        };
        new
    }

    /// Pairs equal tokens, and between them those elements at the same place that are similar.
    fn by_tokens(&self, a: &[Node<'_>], b: &[Node<'_>]) -> Vec<Pair> {
        let (from, to) = (self.inner.start, self.inner.end);
        let (left, right) = (&self.left[from.0..to.0], &self.right[from.1..to.1]);
        let operations = capture_diff_slices_deadline(Algorithm::Myers, left, right, Some(Instant::now() + TIME));
        let pairs = operations
            .into_iter()
            .flat_map(|operation| operation.old_range().zip(operation.new_range()));
        let pairs = pairs.map(|(i, j)| (from.0 + i, from.1 + j));
        let is_pair = |(i, j): &Pair| match (self.left[*i], self.right[*j]) {
            (left, right) if left == right => true,
            (Token::Value(_), Token::Value(_)) => difference(&a[*i], &b[*j]).is_some(),
            _ => false,
        };
        pairs.filter(is_pair).collect()
    }

    /// Adds the pairs of the alignment with the lowest cost. `saves` is whether a pair saves the half of an element of the first list, and
    /// of the second.
    fn align(&self, surplus: &HashMap<Token, i32>, saves: (bool, bool), kept: &mut Vec<Pair>) {
        let pairs = |range: &Range<Pair>| (range.start.0..range.end.0).zip(range.start.1..range.end.1);
        kept.extend(pairs(&self.start));
        match &self.costs {
            Ok(costs) => self.lowest_cost(costs, surplus, saves, kept),
            Err(coarse) => kept.extend(coarse),
        }
        kept.extend(pairs(&self.end));
    }

    fn lowest_cost(
        &self,
        costs: &[Option<u32>],
        surplus: &HashMap<Token, i32>,
        saves: (bool, bool),
        kept: &mut Vec<Pair>,
    ) {
        let (from, to) = (self.inner.start, self.inner.end);
        let (rows, columns) = (to.0 - from.0, to.1 - from.1);
        // A removed and an added element of the same token are one move. So each of them costs half a change, and an element without such
        // a partner half a change more. This second half is left out of all costs, and added here to a pair that does not save it.
        let halves = |tokens: &[Token], saves: bool, sign: i32| {
            let halves = |token| {
                if saves && surplus[token] * sign > 0 {
                    0
                } else {
                    2 * HALF
                }
            };
            tokens.iter().map(halves).collect::<Vec<_>>()
        };
        let lefts = halves(&self.left[from.0..to.0], saves.0, 1);
        let rights = halves(&self.right[from.1..to.1], saves.1, -1);
        // For each place in both parts, the cost from there to their ends, and the distance to the next place.
        let width = columns + 1;
        let mut best = vec![(0, 0); (rows + 1) * width];
        for place in (0..rows * width + columns).rev() {
            let (row, column) = (place / width, place % width);
            let pair = (row < rows && column < columns).then(|| {
                let is_equal = self.left[from.0 + row] == self.right[from.1 + column];
                let penalty = if is_equal { 0 } else { lefts[row] + rights[column] };
                costs[row * columns + column].map(|cost| cost + penalty)
            });
            let (removed, added) = ((row < rows).then_some(HALF), (column < columns).then_some(HALF));
            let steps = [(width + 1, pair.flatten()), (width, removed), (1, added)];
            let steps = steps
                .into_iter()
                .filter_map(|(step, cost)| Some((cost? + best[place + step].0, step)));
            best[place] = steps.min_by_key(|(cost, _)| *cost).unwrap_or_default();
        }
        let mut place = 0;
        while let (_, step @ 1..) = best[place] {
            kept.extend((step > width).then_some((from.0 + place / width, from.1 + place % width)));
            place += step;
        }
    }
}

/// Returns the cost of a changed element without the two halves that it saves, `None` if its removal and an addition are better.
fn difference(a: &Node<'_>, b: &Node<'_>) -> Option<u32> {
    match (&a.children, &b.children) {
        (Children::Map(a), Children::Map(b)) => match compared(a, b) {
            (0 | 1, _) => Some(0),
            (different, true) => Some(HALF + u32::try_from(different.min(32)).unwrap_or(0)),
            _ => None,
        },
        _ => Some(0),
    }
}

/// Returns the number of members that differ, and `true` if two maps share half of their members.
fn compared(a: &Members<'_>, b: &Members<'_>) -> (usize, bool) {
    let (mut common, mut equal) = (0, 0);
    for (node, other) in a.iter().filter_map(|(name, node)| Some((node, b.get(name)?))) {
        common += 1;
        equal += usize::from(node.number == other.number);
    }
    (a.len() + b.len() - common - equal, equal * 2 >= a.len().max(b.len()))
}

/**
 * Alignment of two lists: which elements stay, change in place, or move. It finds what the Rust crate `item-diff` finds.
 *
 * Elements with the same token are matched: equal values, and maps with the same value of an identifying member. The alignment
 * minimizes the number of changes: an insertion, a removal, a move and a change of one member count one each.
 */

import { Buffer } from "node:buffer";
import { canonical } from "./numbers.js";
import { type Attribute, type Attributes, NumberValue } from "./version.js";

/** Members that identify an element of a list, in this order. */
const IDENTITIES = ["id", "ID", "key", "sku", "name"];
/** Maximum number of members that one alignment compares. */
const MAX_COST = 1_000_000;
/** Half the cost of a change. */
const HALF = 64;

/** A value with a number. Values with the same number are equal. */
export interface Node {
  readonly number: number;
  readonly value: Attribute;
  readonly children: Members | Node[] | undefined;
}

/** Members of a map, in the order of their names. */
export type Members = Map<string, Node>;

/** Gives each different value a number, as DynamoDB compares values: `1` equals `1.0`, and sets have no order. */
export class Numbers {
  readonly #numbers = new Map<string, number>();

  node(value: Attribute): Node {
    if (Array.isArray(value)) {
      const children = value.map((element) => this.node(element));
      return this.#numbered(["L", children.map(({ number }) => number)], value, children);
    }
    if (isMap(value)) {
      const children = this.members(value);
      return this.#numbered(["M", [...children].map(([name, { number }]) => [name, number])], value, children);
    }
    return this.#numbered(content(value), value, undefined);
  }

  members(map: Attributes): Members {
    return new Map(sortedNames(Object.keys(map)).map((name) => [name, this.node(map[name] as Attribute)]));
  }

  #numbered(content: unknown, value: Attribute, children: Members | Node[] | undefined): Node {
    const key = JSON.stringify(content);
    const number = this.#numbers.get(key) ?? this.#numbers.size;
    this.#numbers.set(key, number);
    return { number, value, children };
  }
}

/** Returns true for a map. */
export function isMap(value: Attribute | undefined): value is Attributes {
  const isObject = typeof value === "object" && value !== null;
  return isObject && !(value instanceof NumberValue || value instanceof Uint8Array || value instanceof Set);
}

function content(value: Attribute): unknown {
  if (value instanceof NumberValue) return ["N", canonical(value.toString())];
  if (value instanceof Uint8Array) return ["B", Buffer.from(value).toString("base64")];
  if (value instanceof Set) return ["Set", [...value].map((element) => JSON.stringify(content(element))).sort()];
  return value;
}

/** Sorts names by their code points. */
export function sortedNames(names: string[]): string[] {
  return names.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** The lists are too long and too different. */
export class TooLong extends Error {}

export interface Alignment {
  /** Pairs of elements in their order. */
  readonly kept: Pair[];
  /** Pairs of elements with another order. */
  readonly moved: Pair[];
}
type Pair = readonly [number, number];
/** A value has the rank -1, an identity that of its member. Both have the number of a value. */
type Token = `${number}:${number}`;

/**
 * Aligns two lists.
 *
 * @throws TooLong
 */
export function align(a: Node[], b: Node[]): Alignment {
  const [left, right] = tokens(a, b);
  const alignment = alignTokens(a, b, left, right);
  const isDoubtful = ([i, j]: Pair) => isIdentity(left[i]) && !isOneChange(at(a, i), at(b, j));
  if (![...alignment.kept, ...alignment.moved].some(isDoubtful)) return alignment;
  const others = withoutExchanged(a, b, left, right);
  return others === undefined ? alignment : alignTokens(a, b, ...others);
}

/** Returns tokens without identities that were exchanged: both elements differ from another one in the identity only. */
function withoutExchanged(a: Node[], b: Node[], left: Token[], right: Token[]): [Token[], Token[]] | undefined {
  const [leftValues, rightValues] = [values(a), values(b)];
  const { kept, moved } = alignTokens(a, b, leftValues, rightValues);
  const pairs = [...kept, ...moved].filter(([i, j]) => isOneChange(at(a, i), at(b, j)));
  const [ofLeft, ofRight] = [new Map(pairs), new Map(pairs.map(([i, j]) => [j, i]))];
  const places = new Map(right.map((token, j) => [token, j]));
  let isExchanged = false;
  left.forEach((token, i) => {
    const j = places.get(token);
    if (!isIdentity(token) || j === undefined) return;
    if ((ofLeft.get(i) ?? j) !== j && (ofRight.get(j) ?? i) !== i) isExchanged = true;
    else leftValues[i] = rightValues[j] = token;
  });
  return isExchanged ? [leftValues, rightValues] : undefined;
}

function isIdentity(token: Token | undefined): boolean {
  return token !== undefined && !token.startsWith("-1:");
}

function values(nodes: Node[]): Token[] {
  return nodes.map(({ number }): Token => `-1:${number}`);
}

function isOneChange(a: Node, b: Node): boolean {
  if (a.children instanceof Map && b.children instanceof Map) return compared(a.children, b.children)[0] <= 1;
  return a.number === b.number;
}

/**
 * Returns the token of each element. Maps that differ have one identity if they have the same value of a member such as `id`, which
 * no other element of their lists has.
 */
function tokens(a: Node[], b: Node[]): [Token[], Token[]] {
  const [left, right] = [values(a), values(b)];
  IDENTITIES.forEach((name, rank) => {
    const [own, others] = [unmatched(a, left, right, name), unmatched(b, right, left, name)];
    for (const [number, i] of own) {
      const j = others.get(number);
      if (i !== undefined && j !== undefined) left[i] = right[j] = `${rank}:${number}`;
    }
  });
  return [left, right];
}

/** Returns the elements by the number of a member's value, undefined if it is matched already or two elements have it. */
function unmatched(nodes: Node[], tokens: Token[], others: Token[], name: string): Map<number, number | undefined> {
  const [taken, found] = [new Set(others), new Map<number, number | undefined>()];
  nodes.forEach(({ children }, index) => {
    const member = children instanceof Map ? children.get(name) : undefined;
    if (member === undefined || member.children !== undefined) return;
    const isFree = !found.has(member.number) && !taken.has(at(tokens, index));
    found.set(member.number, isFree ? index : undefined);
  });
  return found;
}

function alignTokens(a: Node[], b: Node[], left: Token[], right: Token[]): Alignment {
  const anchored = a.length * b.length > MAX_COST / 8 ? anchors(left, right) : [];
  const gaps: { gap: Gap; end: Pair[] }[] = [];
  let [start, budget]: [Pair, number] = [[0, 0], MAX_COST];
  for (const end of [...anchored, undefined]) {
    const [i, j] = end ?? [a.length, b.length];
    const gap = new Gap(a, b, left, right, start, [i, j], budget);
    gaps.push({ gap, end: end === undefined ? [] : [end] });
    [start, budget] = [[i + 1, j + 1], budget - gap.cost];
  }
  // A positive number counts the elements of the first list.
  const surplus = new Map<Token, number>();
  for (const token of left) surplus.set(token, (surplus.get(token) ?? 0) + 1);
  for (const token of right) surplus.set(token, (surplus.get(token) ?? 0) - 1);
  let [best, lowest]: [Alignment, number] = [{ kept: [], moved: [] }, Infinity];
  // The exact saving depends on the other pairs, so all estimates are tried.
  for (const [savesLeft, savesRight] of [[true, true], [true, false], [false, true], [false, false]] as const) {
    const kept = gaps.flatMap(({ gap, end }) => [...gap.align(surplus, savesLeft, savesRight), ...end]);
    const moved = movedPairs(left, right, kept);
    const changed = kept.filter(([i, j]) => left[i] !== right[j]).length;
    const count = changed + moved.length + a.length + b.length - 2 * (kept.length + moved.length);
    if (count < lowest) [best, lowest] = [{ kept, moved }, count];
  }
  return best;
}

/** Returns the pairs of equal tokens that are in no pair yet. */
function movedPairs(left: Token[], right: Token[], kept: Pair[]): Pair[] {
  const [usedLeft, usedRight] = [new Set(kept.map(([i]) => i)), new Set(kept.map(([, j]) => j))];
  const free = new Map<Token, number[]>();
  left.forEach((token, i) => {
    if (usedLeft.has(i)) return;
    const same = free.get(token);
    if (same === undefined) free.set(token, [i]);
    else same.push(i);
  });
  return right.flatMap((token, j): Pair[] => {
    const i = usedRight.has(j) ? undefined : free.get(token)?.shift();
    return i === undefined ? [] : [[i, j]];
  });
}

/** Returns the longest sequence of tokens that both lists have once, in the order of both. */
function anchors(left: Token[], right: Token[]): Pair[] {
  const [onceLeft, onceRight] = [once(left), once(right)];
  const pairs = [...onceLeft].flatMap(([token, i]): Pair[] => {
    const j = onceRight.get(token);
    return i === undefined || j === undefined ? [] : [[i, j]];
  });
  // The last element of the best sequence of each length, and the element before each.
  const [ends, before]: [number[], (number | undefined)[]] = [[], []];
  pairs.forEach(([, to], number) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (at(pairs, at(ends, middle))[1] < to) low = middle + 1;
      else high = middle;
    }
    before.push(ends[low - 1]);
    ends[low] = number;
  });
  const sequence: Pair[] = [];
  for (let next = ends.at(-1); next !== undefined; next = before[next]) sequence.push(at(pairs, next));
  return sequence.reverse();
}

/** Returns the index of each token, undefined if two elements have it, in the order of the list. */
function once(tokens: Token[]): Map<Token, number | undefined> {
  const found = new Map<Token, number | undefined>();
  tokens.forEach((token, index) => found.set(token, found.has(token) ? undefined : index));
  return found;
}

/** Parts of two lists between two pairs. */
class Gap {
  readonly cost: number;
  readonly #start: Pair[] = [];
  readonly #end: Pair[] = [];
  readonly #from: Pair;
  readonly #left: Token[];
  readonly #right: Token[];
  readonly #costs: (number | undefined)[];

  /** Trims equal tokens at both ends, and compares the pairs of the other elements. */
  constructor(a: Node[], b: Node[], left: Token[], right: Token[], start: Pair, end: Pair, budget: number) {
    let [[i, j], [lastI, lastJ]] = [start, end];
    while (i < lastI && j < lastJ && left[i] === right[j]) this.#start.push([i++, j++]);
    while (i < lastI && j < lastJ && left[lastI - 1] === right[lastJ - 1]) this.#end.unshift([--lastI, --lastJ]);
    this.#from = [i, j];
    [this.#left, this.#right] = [left.slice(i, lastI), right.slice(j, lastJ)];
    const [innerA, innerB] = [a.slice(i, lastI), b.slice(j, lastJ)];
    this.cost = innerA.length * countMembers(innerB) + innerB.length * countMembers(innerA);
    if (this.cost > budget) throw new TooLong();
    this.#costs = innerA.flatMap((node, row) =>
      innerB.map((other, column) => cost(at(this.#left, row), at(this.#right, column), node, other)),
    );
  }

  /**
   * Returns the pairs of the alignment with the lowest cost. A pair can save the half of an element of the first list, and of the
   * second.
   */
  align(surplus: Map<Token, number>, savesLeft: boolean, savesRight: boolean): Pair[] {
    return [...this.#start, ...this.#lowestCost(surplus, savesLeft, savesRight), ...this.#end];
  }

  *#lowestCost(surplus: Map<Token, number>, savesLeft: boolean, savesRight: boolean): Generator<Pair> {
    const [rows, columns] = [this.#left.length, this.#right.length];
    // A removed and an added element of the same token are one move. So each of them costs half a change, and an element without
    // such a partner half a change more. This second half is left out of all costs, and added here to a pair that does not save it.
    const halves = (token: Token, saves: boolean, sign: number) =>
      saves && (surplus.get(token) ?? 0) * sign > 0 ? 0 : 2 * HALF;
    const lefts = this.#left.map((token) => halves(token, savesLeft, 1));
    const rights = this.#right.map((token) => halves(token, savesRight, -1));
    // For each place in both parts, the cost from there to their ends, and the distance to the next place.
    const width = columns + 1;
    const [costs, steps] = [new Int32Array((rows + 1) * width), new Int32Array((rows + 1) * width)];
    for (let place = rows * width + columns - 1; place >= 0; place--) {
      const [row, column] = [Math.floor(place / width), place % width];
      let [lowest, step] = [Infinity, 0];
      const consider = (distance: number, cost: number) => {
        const total = cost + at(costs, place + distance);
        if (total < lowest) [lowest, step] = [total, distance];
      };
      const pair = row < rows && column < columns ? this.#costs[row * columns + column] : undefined;
      if (pair !== undefined) {
        const isEqual = this.#left[row] === this.#right[column];
        consider(width + 1, pair + (isEqual ? 0 : at(lefts, row) + at(rights, column)));
      }
      if (row < rows) consider(width, HALF);
      if (column < columns) consider(1, HALF);
      [costs[place], steps[place]] = [lowest, step];
    }
    for (let place = 0; at(steps, place) > 0; place += at(steps, place)) {
      if (at(steps, place) <= width) continue;
      yield [this.#from[0] + Math.floor(place / width), this.#from[1] + (place % width)];
    }
  }
}

/** Returns the number of members of all maps, and 1 for each other value. */
function countMembers(nodes: Node[]): number {
  const members = ({ children }: Node) => (children instanceof Map ? Math.max(children.size, 1) : 1);
  return nodes.reduce((sum, node) => sum + members(node), 0);
}

function cost(left: Token, right: Token, a: Node, b: Node): number | undefined {
  if (left === right) return 0;
  return isIdentity(left) || isIdentity(right) ? undefined : difference(a, b);
}

/** Returns the cost of a changed element without the halves that it saves, undefined if a removal and an addition are better. */
function difference(a: Node, b: Node): number | undefined {
  if (!(a.children instanceof Map && b.children instanceof Map)) return 0;
  const [different, isSimilar] = compared(a.children, b.children);
  if (different <= 1) return 0;
  return isSimilar ? HALF + Math.min(different, 32) : undefined;
}

/** Returns the number of members that differ, and true if two maps share half of their members. */
function compared(a: Members, b: Members): [number, boolean] {
  let [common, equal] = [0, 0];
  for (const [name, { number }] of a) {
    const other = b.get(name);
    if (other === undefined) continue;
    common += 1;
    if (number === other.number) equal += 1;
  }
  return [a.size + b.size - common - equal, equal * 2 >= Math.max(a.size, b.size)];
}

/** Returns the element at an index inside of a list. */
function at<T>(list: ArrayLike<T>, index: number): T {
  return list[index] as T;
}

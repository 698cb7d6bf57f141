/** Differences between two versions, as `vzero diff` finds them. Values are equal if DynamoDB treats them as equal. */

import { align, isMap, type Members, type Node, Numbers, sortedNames, TooLong } from "./alignment.js";
import { type Attribute, type Attributes, isState, object, type Version } from "./version.js";

/** Maximum number of elements of a list that are added, removed or moved. A list with more is one change. */
const MAX_CHANGED_ELEMENTS = 2_000;

/** Change of one value. Changes apply in their order: each path refers to the item at its step, as in RFC 6902. */
export interface Change {
  /** Path of the value: `Status`, `Address.City`, `Lines[2].Price`. An element is added before the one at its index. */
  readonly path: string;
  readonly kind: "added" | "removed" | "changed" | "moved";
  /** Value that was removed or changed. */
  readonly old?: Attribute;
  /** Value that was added, or to which it was changed. */
  readonly new?: Attribute;
  /** Path from which an element was moved. */
  readonly fromPath?: string;
}

/**
 * Compares two versions of one entity. Undefined is the state before version 1.
 *
 * A deletion is the addition of an attribute `Deleted`; in an attached table, of `(deleted)`. What was erased from the new version is
 * not compared. Lists that are too long and too different are one change.
 */
export function diff(old: Version | undefined, next: Version): Change[] {
  const before = next.erased.reduce(without, old === undefined ? {} : withTombstone(old));
  const [numbers, changes] = [new Numbers(), new Changes()];
  changes.members("", numbers.members(before), numbers.members(withTombstone(next)));
  return changes.changes;
}

/** Returns true if the changes of a version are known. A late version never was the state, and an omitted one is unknown. */
export function isComparable(previous: Version | undefined, version: Version): boolean {
  if (previous === undefined || previous.number + 1 !== version.number) return version.number === 1 && isState(version);
  return isState(previous) && isState(version);
}

function withTombstone(version: Version): Attributes {
  const name = version.change === undefined ? "Deleted" : "(deleted)";
  return version.deleted ? object([...Object.entries(version.attributes), [name, true]]) : version.attributes;
}

/** Removes the value at these names, and the maps around it that are then empty. */
function without(attributes: Attributes, [name = "", ...inner]: readonly string[]): Attributes {
  const rest = object(Object.entries(attributes));
  const map = rest[name];
  if (inner.length === 0) delete rest[name];
  else if (isMap(map)) {
    const left = without(map, inner);
    if (Object.keys(left).length > 0) rest[name] = left;
    else delete rest[name];
  }
  return rest;
}

/** Returns the path of a member. A name of other characters is a JSON string. */
function step(path: string, name: string): string {
  const isPlain = /^[\p{Alphabetic}\p{N}_\-$@#/ ]+$/u.test(name) && name.trim() === name && !name.startsWith("-");
  return path + (path && ".") + (isPlain ? name : JSON.stringify(name));
}

class Changes {
  readonly changes: Change[] = [];

  /** Adds the changes of a value. Returns true if a part of the values is equal. */
  #value(path: string, a: Node, b: Node): boolean {
    if (a.number === b.number) return true;
    const before = this.changes.length;
    const whole: Change = { path, kind: "changed", old: a.value, new: b.value };
    let hasEqualPart = false;
    if (a.children instanceof Map && b.children instanceof Map) {
      hasEqualPart = this.members(path, a.children, b.children);
    } else if (Array.isArray(a.children) && Array.isArray(b.children)) {
      try {
        hasEqualPart = this.#elements(path, a.children, b.children);
      } catch (error) {
        if (!(error instanceof TooLong)) throw error;
        this.changes.splice(before, Infinity, whole);
        return true;
      }
    } else {
      this.changes.push(whole);
    }
    if (!hasEqualPart && this.changes.length > before + 1) this.changes.splice(before, Infinity, whole);
    return hasEqualPart;
  }

  members(path: string, a: Members, b: Members): boolean {
    let hasEqualPart = false;
    for (const name of sortedNames([...new Set([...a.keys(), ...b.keys()])])) {
      const [of, old, added] = [step(path, name), a.get(name), b.get(name)];
      if (old !== undefined && added !== undefined) hasEqualPart = this.#value(of, old, added) || hasEqualPart;
      else if (old !== undefined) this.changes.push({ path: of, kind: "removed", old: old.value });
      else if (added !== undefined) this.changes.push({ path: of, kind: "added", new: added.value });
    }
    return hasEqualPart;
  }

  /** Adds the changes of a list: removals from the end, moves and additions from the start, then changes of elements. */
  #elements(path: string, a: Node[], b: Node[]): boolean {
    const { kept, moved } = align(a, b);
    const start = this.changes.length;
    let hasEqualPart = false;
    for (const [i, j] of [...kept, ...moved]) {
      hasEqualPart = this.#value(`${path}[${j}]`, a[i] as Node, b[j] as Node) || hasEqualPart;
    }
    const nested = this.changes.splice(start);
    // For each element of the second list the one of the first list.
    const sources = new Map([...kept, ...moved].map(([i, j]) => [j, i]));
    const [remaining, targets] = [new Set(sources.values()), new Set(moved.map(([, j]) => j))];
    if (a.length - remaining.size + targets.size + b.length - sources.size > MAX_CHANGED_ELEMENTS) throw new TooLong();
    for (let i = a.length - 1; i >= 0; i--) {
      if (!remaining.has(i)) this.changes.push({ path: `${path}[${i}]`, kind: "removed", old: (a[i] as Node).value });
    }
    // The list while its changes apply: indexes of the first list, and those of the second one, below zero, for new elements.
    const present = [...remaining].sort((one, other) => one - other);
    const element = (j: number) => sources.get(j) ?? -1 - j;
    b.forEach(({ value }, j) => {
      if (sources.has(j) && !targets.has(j)) return;
      const from = sources.has(j) ? present.indexOf(element(j)) : undefined;
      if (from !== undefined) present.splice(from, 1);
      const to = j > 0 ? present.indexOf(element(j - 1)) + 1 : 0;
      present.splice(to, 0, element(j));
      if (from === undefined) this.changes.push({ path: `${path}[${to}]`, kind: "added", new: value });
      else this.changes.push({ path: `${path}[${to}]`, kind: "moved", fromPath: `${path}[${from}]` });
    });
    this.changes.push(...nested);
    return hasEqualPart;
  }
}

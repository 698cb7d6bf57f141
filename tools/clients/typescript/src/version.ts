/** A version, without the bookkeeping attributes of its item. */

import { inflateSync } from "node:zlib";
import { NumberValue } from "@aws-sdk/lib-dynamodb";
import { convertToNative } from "@aws-sdk/util-dynamodb";
import { UnknownTime } from "./errors.js";
import { type Item, text, whole, wholeOf } from "./layout.js";
import * as times from "./times.js";

export { NumberValue };

/** Value of an attribute. A NumberValue has all digits: `toString()`, `toBigInt()`. */
export type Attribute =
  | string
  | boolean
  | null
  | NumberValue
  | Uint8Array
  | Attribute[]
  | { [name: string]: Attribute }
  | Set<string | NumberValue | Uint8Array>;

/** Attributes by name, without a prototype: any name is a name of an attribute. */
export type Attributes = { [name: string]: Attribute };

/** Stream record behind a version of an attached table. */
export interface StreamChange {
  /** Label of the stream, or `backfill`. */
  readonly stream: string;
  /** `Baseline`: the state before the first change. `Missed`: its own record is lost. `Late`: never the latest state. */
  readonly mark: "Baseline" | "Missed" | "Late" | undefined;
  /** Number of the version before a late one, in the order of the stream. */
  readonly after: number | undefined;
  /** Number of the last version before a late one that is not late. */
  readonly inOrder: number | undefined;
  /** Time of that version. */
  readonly inOrderAt: string | undefined;
  /** True if the state did not fit: the version has the key attributes only. */
  readonly omitted: boolean;
  /** Version number of the item's own writers. */
  readonly itemVersion: Attribute | undefined;
  /** True if the state before has the same author, so that the change need not be theirs. */
  readonly actorUnchanged: boolean;
}

/** One version of an entity. */
export interface Version {
  readonly entity: string;
  readonly number: number;
  /** True if the version is a tombstone. */
  readonly deleted: boolean;
  /** Time of the version in UTC with nine decimal places. Texts sort as times. Undefined if it is not known (yet). */
  readonly recordedAt: string | undefined;
  /** True if another program wrote the version, and its time comes from the stream. */
  readonly recordedByStream: boolean;
  /** First version of its sequence of times: 1, unless a repair of a time that was far ahead began a new one. */
  readonly recordedSince: number;
  readonly requestId: string | undefined;
  readonly actor: Attribute | undefined;
  readonly reason: Attribute | undefined;
  readonly changeSet: Attribute | undefined;
  /** Number of entities that the update changed together, as one change set. */
  readonly changeSetSize: number | undefined;
  readonly sender: string | undefined;
  readonly restoredFrom: number | undefined;
  readonly attributes: Attributes;
  /** Paths of erased values: the names of an attribute and of members of maps. */
  readonly erased: readonly (readonly string[])[];
  /** Stream record, if the table is attached. */
  readonly change: StreamChange | undefined;
}

/** Attributes of the latest item only, and marks of version items. */
const OF_LATEST = [
  "Latest",
  "RecentRequests",
  "RequestsSince",
  "RequestsDropped",
  "RequestsAhead",
  "RecordedVersion",
  "RecordedTick",
  "TTL",
  "TombstoneState",
  "TombstoneStaged",
  "TimePartition",
  "InsertedAt",
];
const OF_WRITER = [
  ...["Actor", "Reason", "ChangeSet", "ChangeSetSize", "Sender", "RestoredFrom", "RequestId", "RequestPayload"],
];
/** Attributes that belong to one version. */
const OF_VERSION = [...OF_WRITER, "Time", "Timestamp"];
const BOOKKEEPING = new Set([
  ...OF_LATEST,
  ...OF_WRITER,
  ...["PK", "SK", "RecordedAt", "RecordedBy", "RecordedSince", "V0Id", "Deleted", "Pinned", "Erased"],
]);
/** Attributes of a latest item that is a tombstone and are not state. Its state is in `TombstoneState`. */
const OF_TOMBSTONE = new Set([...BOOKKEEPING, "Time", "Timestamp"]);

/** Creates the view of a flat version item, or of a latest item. */
export function view(entity: string, number: number, stored: Item): Version {
  const item = stored.Latest === undefined ? stored : ofLatest(stored, number);
  const restored = whole(item, "RestoredFrom");
  // The SDK returns undefined for an item's attribute that is named `__proto__`.
  const attributes = Object.entries(item).filter(([name, of]) => of !== undefined && !BOOKKEEPING.has(name));
  return {
    entity,
    number,
    deleted: item.Deleted?.BOOL === true,
    recordedAt: time(item, "RecordedAt"),
    recordedByStream: stored.RecordedBy !== undefined,
    recordedSince: Math.min(Math.max(whole(item, "RecordedSince") ?? 1, 1), number),
    requestId: text(item, "RequestId"),
    actor: item.Actor && value(item.Actor),
    reason: item.Reason && value(item.Reason),
    changeSet: item.ChangeSet && value(item.ChangeSet),
    changeSetSize: whole(item, "ChangeSetSize"),
    sender: text(item, "Sender"),
    restoredFrom: restored !== undefined && restored > 0 ? restored : undefined,
    attributes: object(attributes.map(([name, of]) => [name, value(of)])),
    erased: Object.keys(stored.Erased?.M ?? {}).flatMap(erasedPath),
    change: undefined,
  };
}

/** Creates the view of a stored version item of an attached table. */
export function attachedView(entity: string, number: number, stored: Item): Version {
  const [outer, image] = split(stored);
  const attributes = object(Object.entries(image).map(([name, of]) => [name, value(of)]));
  return { ...view(entity, number, outer), attributes, change: streamChange(outer) };
}

function streamChange(outer: Item): StreamChange | undefined {
  const stream = text(outer, "Stream");
  if (stream === undefined) return undefined;
  return {
    stream,
    mark: (["Baseline", "Missed", "Late"] as const).find((mark) => outer[mark] !== undefined),
    after: whole(outer, "After"),
    inOrder: whole(outer, "InOrder"),
    inOrderAt: time(outer, "InOrderAt"),
    omitted: outer.Omitted !== undefined,
    itemVersion: outer.ItemVersion && value(outer.ItemVersion),
    actorUnchanged: outer.ActorUnchanged !== undefined,
  };
}

/** Returns number and time of a version in the order of history: a late one has those of the last version before it. */
export function dividing({ number, recordedAt, change }: Version): [number, string | undefined] {
  return change?.mark === "Late" && change.inOrder !== undefined
    ? [change.inOrder, change.inOrderAt]
    : [number, recordedAt];
}

/** Returns false for a version of an attached table that is late or omitted: its state cannot be compared. */
export function isState({ change }: Version): boolean {
  return change === undefined || (change.mark !== "Late" && !change.omitted);
}

/** Reads `["Attribute","Address","City"]`. Empty for metadata, and for a text of another form. */
function erasedPath(json: string): string[][] {
  try {
    const [namespace, ...names] = JSON.parse(json) as string[];
    return namespace === "Attribute" && names.every((name) => typeof name === "string") ? [names] : [];
  } catch {
    return [];
  }
}

function time(item: Item, name: string): string | undefined {
  const nanos = times.parse(text(item, name) ?? "");
  return nanos === undefined ? undefined : times.text(nanos);
}

/**
 * Returns `Time`, or else `Timestamp`, in nanoseconds. Undefined if there is neither.
 *
 * @throws UnknownTime
 */
export function clientTime(version: Version): bigint | undefined {
  const { Time: time, Timestamp: stamp } = version.attributes;
  const nanos = typeof time === "string" ? times.parse(time) : undefined;
  if (nanos !== undefined) return nanos;
  const millis = stamp instanceof NumberValue ? wholeOf(stamp.toString()) : undefined;
  if (millis !== undefined) return BigInt(millis) * 1_000_000n;
  if (time !== undefined || stamp !== undefined) throw new UnknownTime(version.number);
  return undefined;
}

/** Returns the attributes of a latest item that belong to its current version. */
function ofLatest(item: Item, version: number): Item {
  const recordedVersion = whole(item, "RecordedVersion") ?? 0;
  const leftOut = new Set([...OF_LATEST, "RecordedAt", "RecordedBy"]);
  if (recordedVersion > 0 && recordedVersion !== version) {
    // Another program incremented `Latest`, and left the record of an older version.
    for (const name of OF_VERSION) leftOut.add(name);
  }
  const isDeleted = item.Deleted?.BOOL === true;
  // On a tombstone, what is left of the state before the deletion, and not removed yet, is no part of the version.
  const isPart = (name: string) => !isDeleted || recordedVersion !== version || OF_TOMBSTONE.has(name);
  const state = (isDeleted && item.TombstoneState?.M) || {};
  const kept = Object.entries(item).filter(([name]) => !leftOut.has(name) && isPart(name));
  const own = object([...kept, ...Object.entries(state)]);
  const nanos = times.parse(text(item, "RecordedAt") ?? "");
  if (recordedVersion === version && nanos !== undefined) {
    own.RecordedAt = { S: times.text(nanos + BigInt(whole(item, "RecordedTick") ?? 0)) };
  }
  return own;
}

/** Maximum length in bytes of the JSON of a compressed version. */
const MAX_JSON = 24 * 2 ** 20;

/** Returns the sort keys of the further parts of a stored version item, none if it is not in parts. */
export function partKeys(item: Item): string[] {
  const parts = item.ImageDeflate?.B === undefined ? 0 : (whole(item, "Parts") ?? 0);
  return Array.from({ length: Math.max(parts - 1, 0) }, (_, index) => `part#${text(item, "SK")}#${index + 2}`);
}

/** Adds the further parts, in their order, to a stored version item. */
export function joined(item: Item, further: Item[]): Item {
  const { Parts: _, ...first } = item;
  const bytes = [item, ...further].map((part) => part.ImageDeflate?.B ?? new Uint8Array());
  return { ...first, ImageDeflate: { B: Buffer.concat(bytes) } };
}

/** Converts a version item, whose attributes are in one of the two images, to a flat one. */
export function flat(item: Item): Item {
  const [outer, image] = split(item);
  return outer === item ? item : object([...Object.entries(image), ...Object.entries(outer)]);
}

/** Splits a version item into the attributes around its image, and the attributes in it: none if it cannot be read. */
function split(item: Item): [Item, Item] {
  const { Image: map, ImageDeflate: compressed, ...outer } = item;
  const isOne = (map === undefined) !== (compressed === undefined);
  const image = isOne ? (map?.M ?? fromText(() => inflated(compressed?.B))) : undefined;
  return image === undefined ? [item, {}] : [outer, image];
}

/** @throws if the bytes are not compressed with zlib, or their text is too long. */
function inflated(bytes: Uint8Array | undefined): string | undefined {
  return bytes && inflateSync(bytes, { maxOutputLength: MAX_JSON }).toString("utf8");
}

function fromText(read: () => string | undefined): Item | undefined {
  try {
    const json = read();
    if (json === undefined) return undefined;
    const image = JSON.parse(json) as Item;
    // In a text, binary values are base64.
    return object(Object.entries(image).map(([name, of]) => [name, decoded(of)]));
  } catch {
    return undefined;
  }
}

/** Decodes the binary values of an attribute value in DynamoDB JSON. */
function decoded(of: Item[string]): Item[string] {
  const bytes = (base64: unknown) => new Uint8Array(Buffer.from(String(base64), "base64"));
  if (of.B !== undefined) return { B: bytes(of.B) };
  if (of.BS !== undefined) return { BS: of.BS.map(bytes) };
  if (of.L !== undefined) return { L: of.L.map(decoded) };
  if (of.M !== undefined) return { M: object(Object.entries(of.M).map(([name, member]) => [name, decoded(member)])) };
  return of;
}

/** Converts an attribute value. The SDK's own conversion of a map would lose the name `__proto__`. */
function value(of: Item[string]): Attribute {
  if (of.L !== undefined) return of.L.map(value);
  if (of.M !== undefined) return object(Object.entries(of.M).map(([name, member]) => [name, value(member)]));
  // NumberValue is also the type of the numbers of a set.
  return convertToNative(of, { wrapNumbers: (text: string) => NumberValue.from(text) }) as Attribute;
}

/** Returns an object without a prototype. */
export function object<T>(members: [string, T][]): { [name: string]: T } {
  const made = Object.create(null) as { [name: string]: T };
  for (const [name, member] of members) made[name] = member;
  return made;
}

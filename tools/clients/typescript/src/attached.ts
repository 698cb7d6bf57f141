/** History of an attached table: of items that other programs write, under their own keys. */

import { createHash } from "node:crypto";
import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { EntityNotFound, NotAttached } from "./errors.js";
import { type Item, Layout, text, whole } from "./layout.js";
import { keyText } from "./numbers.js";
import { Store } from "./store.js";
import { Reader, type ReadOptions } from "./table.js";
import * as times from "./times.js";
import { attachedView, NumberValue, type Version } from "./version.js";

/** Value of a key attribute. A number must be exact in JavaScript: a bigint or a NumberValue has all digits. */
export type KeyValue = string | number | bigint | NumberValue | Uint8Array;
/** Key attributes of an item by name, or `entity` of a version. */
export type Key = string | { readonly [name: string]: KeyValue };

export interface AttachedOptions extends ReadOptions {
  /** Name of the history table. Default: that of the table and `-history`. */
  history?: string | undefined;
}

/** Width of the version keys of a history table. */
const DIGITS = 10;
const MAX_BYTES = 2048;

/**
 * A table that other programs write, with its history. It reads only the history table, whose latest versions can lag behind the
 * items. Reads are strongly consistent by default. The definition is read once.
 */
export class AttachedTable extends Reader<Key> {
  readonly #attached: AttachedStore;

  constructor(client: DynamoDBClient, name: string, options: AttachedOptions = {}) {
    const attached = new AttachedStore(client, name, options.consistent ?? true, options.history ?? `${name}-history`);
    super(attached);
    this.#attached = attached;
  }

  protected override async id(entity: Key): Promise<string> {
    return typeof entity === "string" ? entity : partitionKey(await this.#attached.keys(), entity);
  }

  /**
   * Reads the version that was the latest at a time. A late version counts at its place in the stream. It is a binary search: log2 N
   * reads, and at most 2 for late versions.
   *
   * @throws as in other tables
   */
  override async asOf(entity: Key, time: string | Date): Promise<Version | undefined> {
    const found = await super.asOf(entity, time);
    const late = await this.#attached.lastLate(await this.id(entity), times.text(times.ofArgument(time)));
    if (late === undefined || (found !== undefined && isBefore(late, placeOf(found)))) return found;
    return this.version(entity, late.version);
  }
}

type KeyAttribute = readonly [name: string, type: string];

class AttachedStore extends Store {
  #keys: KeyAttribute[] = [];

  constructor(
    client: DynamoDBClient,
    name: string,
    consistent: boolean,
    readonly history: string,
  ) {
    super(client, name, consistent);
  }

  /** Returns names and types of the key attributes. */
  async keys(): Promise<KeyAttribute[]> {
    await this.layout();
    return this.#keys;
  }

  protected override async readLayout(): Promise<Layout> {
    const item = await this.getFrom(this.history, "#vzero", "attached");
    const definition = JSON.parse(text(item ?? {}, "Definition") ?? "{}") as Definition;
    if (definition.TableName !== this.name) throw new NotAttached(this.name, this.history);
    const types = new Map(definition.AttributeDefinitions.map((of) => [of.AttributeName, of.AttributeType]));
    const isHash = ({ KeyType }: { KeyType: string }) => KeyType === "HASH";
    const schema = definition.KeySchema;
    const keys = [...schema.filter(isHash), ...schema.filter((key) => !isHash(key))];
    this.#keys = keys.map(({ AttributeName: name }) => [name, types.get(name) ?? ""]);
    return new Layout(DIGITS, this.history);
  }

  protected override view(_: Layout, entity: string, version: number, item: Item): Version {
    return attachedView(entity, version, item);
  }

  /** Reads the highest version, which can be late. */
  override async newest(entity: string): Promise<Version> {
    return this.#last(entity, 1);
  }

  /** Reads the last version that is not late. If all are late, the oldest of them. */
  override async latest(entity: string): Promise<Version> {
    return this.#last(entity, Infinity);
  }

  /** Reads versions newest first, up to `limit`, or the first one that is not late. */
  async #last(entity: string, limit: number): Promise<Version> {
    const layout = await this.layout();
    let [found, read]: [Version | undefined, number] = [undefined, 0];
    const pages = this.query(entity, layout.key(1), layout.key(layout.widest), false, Math.min(limit, 25));
    for await (const items of pages) {
      for (const version of await this.views(entity, items)) {
        [found, read] = [version, read + 1];
        if (read === limit || version.change?.mark !== "Late") return version;
      }
    }
    if (found === undefined) throw new EntityNotFound(entity);
    return found;
  }

  /** Returns number and place of the last late version that is not later than a time. */
  async lastLate(entity: string, until: string): Promise<(Place & { version: number }) | undefined> {
    for await (const items of this.query(entity, "late#", `late#${until}#~`, false, 1)) {
      for (const item of items) {
        return { version: whole(item, "Version") ?? 0, ...place(text(item, "Stream"), text(item, "RequestId")) };
      }
    }
    return undefined;
  }
}

interface Definition {
  TableName?: string;
  KeySchema: { AttributeName: string; KeyType: string }[];
  AttributeDefinitions: { AttributeName: string; AttributeType: string }[];
}

/** Place of a state: by stream, by sequence number, the old image of a record before the new one. */
interface Place {
  readonly stream: string;
  readonly sequence: bigint;
  readonly isNew: boolean;
}

function placeOf({ change, requestId }: Version): Place {
  return place(change?.stream, requestId);
}

/** Returns the place of a state. One that a backfill read is before all others. */
function place(stream: string | undefined, requestId = ""): Place {
  const sequence = requestId.replace(/#old$/, "");
  const isRecord = /^[0-9]+$/.test(sequence);
  return isRecord
    ? { stream: stream ?? "", sequence: BigInt(sequence), isNew: sequence === requestId }
    : { stream: "", sequence: 0n, isNew: false };
}

function isBefore(a: Place, b: Place): boolean {
  if (a.stream !== b.stream) return a.stream < b.stream;
  return a.sequence === b.sequence ? !a.isNew && b.isNew : a.sequence < b.sequence;
}

/**
 * Returns the partition key of the history of an item: compact JSON of its key attributes, or its hash.
 *
 * @throws RangeError for another key than that of the table
 */
export function partitionKey(keys: readonly KeyAttribute[], key: { readonly [name: string]: KeyValue }): string {
  const members = keys.map(([name, type]) => {
    const text = Object.hasOwn(key, name) ? valueText(type, key[name]) : undefined;
    if (text !== undefined) return `${JSON.stringify(name)}:${text}`;
    throw new RangeError(`the key attribute ${name} is missing, empty, or not of type ${type}`);
  });
  if (Object.keys(key).length !== keys.length) {
    throw new RangeError(`the key has other attributes than ${keys.map(([name]) => name).join(", ")}`);
  }
  const json = `{${members.join(",")}}`;
  if (Buffer.byteLength(json) <= MAX_BYTES) return json;
  return `sha256:${createHash("sha256").update(json).digest("hex")}`;
}

function valueText(type: string, value: KeyValue | undefined): string | undefined {
  if (type === "S" && typeof value === "string" && value !== "") return JSON.stringify(value);
  if (type === "B" && value instanceof Uint8Array && value.length > 0) {
    return JSON.stringify(Buffer.from(value).toString("base64"));
  }
  const isExact = typeof value !== "number" || !Number.isInteger(value) || Number.isSafeInteger(value);
  const isNumber = typeof value === "number" || typeof value === "bigint" || value instanceof NumberValue;
  return type === "N" && isNumber && isExact ? keyText(value.toString()) : undefined;
}

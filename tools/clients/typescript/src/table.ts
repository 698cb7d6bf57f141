/** Reads of versions, by the requests of DynamoDB's read API. */

import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { asOf } from "./asOf.js";
import { type Change, diff, isComparable } from "./diff.js";
import { LimitReached } from "./errors.js";
import type { Layout } from "./layout.js";
import { MAX_KEYS, Store } from "./store.js";
import * as times from "./times.js";
import { clientTime, type Version } from "./version.js";

/** Number of versions in the first page of a search by the client's time. */
const FIRST_PAGE = 10;

export interface ReadOptions {
  /** False for eventually consistent reads, at half the capacity. Default true. */
  consistent?: boolean | undefined;
}

export interface LogOptions {
  /** True for ascending order. Default false. */
  oldestFirst?: boolean | undefined;
  /** First version of the range. Default 1. */
  first?: number | undefined;
  /** Last version of the range. Default the latest. */
  last?: number | undefined;
  /** Maximum number of versions. */
  limit?: number | undefined;
}

export interface HistoryOptions extends LogOptions {
  /** Maximum number of versions of a page. Default 100. */
  pageSize?: number | undefined;
}

/** A version, with its changes. */
export interface LogEntry {
  readonly version: Version;
  /**
   * Changes from the version before. Undefined if they are not known: that version is missing, or one of both is late or omitted.
   */
  readonly changes: Change[] | undefined;
}

/** Reads of one table. Subclasses open it, and name its entities. */
export abstract class Reader<Entity> {
  constructor(protected readonly store: Store) {}

  /** Returns the partition key of the history of an entity. */
  protected abstract id(entity: Entity): Promise<string>;

  get client(): DynamoDBClient {
    return this.store.client;
  }

  /** Name of the table. */
  get name(): string {
    return this.store.name;
  }

  /**
   * Returns the layout of the table.
   *
   * @throws InvalidLayout, CopiedTable, or NotAttached for an attached table
   */
  layout(): Promise<Layout> {
    return this.store.layout();
  }

  /**
   * Reads the latest version, which can be a tombstone.
   *
   * @throws EntityNotFound, InvalidLatest
   */
  async latest(entity: Entity): Promise<Version> {
    return this.store.latest(await this.id(entity));
  }

  /**
   * Reads a version by its number. The latest item supplies its version until it is in history.
   *
   * @throws EntityNotFound, VersionNotFound, VersionPruned, InvalidLatest
   */
  async version(entity: Entity, version: number): Promise<Version> {
    const [store, key] = [this.store, await this.id(entity)];
    const found = await store.version(key, version);
    if (found !== undefined) return found;
    const newest = await store.newest(key);
    if (newest.number === version) return newest;
    throw await store.missing(key, version, newest.number);
  }

  /**
   * Reads the version that was the latest at a time, by `RecordedAt`. Undefined if the entity did not exist yet. It is a binary
   * search: log2 N reads.
   *
   * @throws EntityNotFound, VersionNotFound, VersionPruned, UnknownTime, InvalidLatest, RangeError for an invalid time
   */
  async asOf(entity: Entity, time: string | Date): Promise<Version | undefined> {
    const limit = times.text(times.ofArgument(time));
    return asOf(this.store, await this.id(entity), limit);
  }

  /**
   * Reads the highest version whose `Time` or `Timestamp` is not later. Undefined if there is none. It reads versions newest
   * first, at most `limit`.
   *
   * @throws LimitReached, UnknownTime, RangeError for a limit below 1, and as `asOf` does
   */
  async effectiveAt(
    entity: Entity,
    time: string | Date,
    options: { limit?: number | undefined } = {},
  ): Promise<Version | undefined> {
    const limit = options.limit ?? Infinity;
    checkPositive("limit", limit);
    const wanted = times.ofArgument(time);
    const [store, key] = [this.store, await this.id(entity)];
    const newest = await store.newest(key);
    const isInEffect = (version: Version) => {
      const own = clientTime(version);
      return own !== undefined && own <= wanted;
    };
    if (isInEffect(newest)) return newest;
    let [read, last, size] = [1, newest.number - 1, FIRST_PAGE];
    while (last > 0) {
      if (read >= limit) throw new LimitReached(read);
      const first = Math.max(1, last - Math.min(size, limit - read) + 1);
      const page = new Map((await store.byKeys(key, range(first, last))).map((found) => [found.number, found]));
      for (let number = last; number >= first; number--) {
        const found = page.get(number);
        if (found === undefined) throw await store.missing(key, number, newest.number);
        if (isInEffect(found)) return found;
      }
      [read, last, size] = [read + last - first + 1, first - 1, MAX_KEYS];
    }
    return undefined;
  }

  /**
   * Compares two versions by their numbers.
   *
   * @throws as `version` does
   */
  async diff(entity: Entity, old: number, next: number): Promise<Change[]> {
    return diff(await this.version(entity, old), await this.version(entity, next));
  }

  /**
   * Reads versions newest first, each with its changes.
   *
   * @throws as `history` does
   */
  async *log(entity: Entity, options: LogOptions = {}): AsyncGenerator<LogEntry, void> {
    const { oldestFirst = false, first = 1, limit = Infinity } = options;
    checkPositive("limit", limit);
    // One version more is read, for the changes of the first one.
    const versions = this.history(entity, { ...options, first: first - 1, limit: limit + 1 });
    let left = limit;
    for await (const entry of entries(versions, oldestFirst)) {
      if (entry.version.number < first) continue;
      yield entry;
      left -= 1;
      if (left === 0) return;
    }
  }

  /**
   * Reads versions newest first, page by page. A page is not empty. Versions that are not stored are left out; the latest item
   * supplies its version. To continue later, pass `last` or `first` one beyond the last version that was read.
   *
   * @throws EntityNotFound, InvalidLatest, RangeError for a limit or page size below 1
   */
  async *history(entity: Entity, options: HistoryOptions = {}): AsyncGenerator<Version[], void> {
    const { oldestFirst = false, first = 1, limit = Infinity, pageSize = MAX_KEYS } = options;
    checkPositive("limit", limit);
    checkPositive("pageSize", pageSize);
    const [store, key] = [this.store, await this.id(entity)];
    const newest = await store.newest(key);
    const last = Math.min(options.last ?? newest.number, newest.number);
    let left = limit;
    let pending = first <= newest.number && newest.number <= last;
    let carried: Version[] = [];
    for await (const page of this.#pages(key, Math.max(first, 1), last, oldestFirst, pageSize)) {
      if (!oldestFirst && pending) {
        pending = false;
        if (page[0]?.number !== newest.number) page.unshift(newest);
      }
      pending &&= !page.some((found) => found.number === newest.number);
      // With the latest item, a page can have one version too many. It moves to the next page.
      const found = [...carried, ...page];
      carried = found.slice(pageSize);
      const wanted = found.slice(0, Math.min(pageSize, left));
      left -= wanted.length;
      if (wanted.length > 0) yield wanted;
      if (left <= 0) return;
    }
    if (pending) carried.push(newest);
    if (carried.length > 0) yield carried;
  }

  async *#pages(
    entity: string,
    first: number,
    last: number,
    oldestFirst: boolean,
    size: number,
  ): AsyncGenerator<Version[]> {
    const layout = await this.layout();
    const fits = Math.min(last, layout.widest);
    const beyond = Math.max(first, fits + 1);
    const parts: AsyncGenerator<Version[]>[] = [];
    if (first <= fits) parts.push(this.#query(entity, first, fits, oldestFirst, size));
    if (beyond <= last) parts.push(this.#keyPages(entity, beyond, last, oldestFirst, size));
    for (const part of oldestFirst ? parts : parts.reverse()) yield* part;
  }

  async *#query(
    entity: string,
    first: number,
    last: number,
    oldestFirst: boolean,
    size: number,
  ): AsyncGenerator<Version[]> {
    const layout = await this.layout();
    const pages = this.store.query(entity, layout.key(first), layout.key(last), oldestFirst, size);
    for await (const items of pages) {
      const found = await this.store.views(entity, items);
      // `v100` sorts between `v10` and `v11`, but does not fit the width of 2.
      yield found.filter(({ number }) => first <= number && number <= last);
    }
  }

  async *#keyPages(
    entity: string,
    first: number,
    last: number,
    oldestFirst: boolean,
    pageSize: number,
  ): AsyncGenerator<Version[]> {
    const size = Math.max(1, Math.min(pageSize, MAX_KEYS));
    while (first <= last) {
      const numbers = oldestFirst
        ? range(first, Math.min(first + size - 1, last))
        : range(Math.max(last - size + 1, first), last);
      if (oldestFirst) first += numbers.length;
      else last -= numbers.length;
      const page = await this.store.byKeys(entity, numbers);
      yield oldestFirst ? page : page.reverse();
      if (page.length > 0) continue;
      // A gap can be wide: look up which versions exist.
      const existing = (await this.store.stored(entity)).filter((number) => first <= number && number <= last);
      if (!oldestFirst) existing.reverse();
      for (let start = 0; start < existing.length; start += size) {
        const found = await this.store.byKeys(entity, existing.slice(start, start + size));
        yield oldestFirst ? found : found.reverse();
      }
      return;
    }
  }
}

/** A table of latest items, with its history. Reads are strongly consistent by default. The layout is read once. */
export class Table extends Reader<string> {
  constructor(client: DynamoDBClient, name: string, options: ReadOptions = {}) {
    super(new Store(client, name, options.consistent ?? true));
  }

  protected override async id(entity: string): Promise<string> {
    return entity;
  }
}

/** Compares each version with the previous one, which is read before or after it. */
async function* entries(pages: AsyncGenerator<Version[]>, oldestFirst: boolean): AsyncGenerator<LogEntry> {
  let last: Version | undefined;
  for await (const page of pages) {
    for (const version of page) {
      if (oldestFirst) yield entry(last, version);
      else if (last !== undefined) yield entry(version, last);
      last = version;
    }
  }
  if (last !== undefined && !oldestFirst) yield entry(undefined, last);
}

function entry(previous: Version | undefined, version: Version): LogEntry {
  return { version, changes: isComparable(previous, version) ? diff(previous, version) : undefined };
}

function checkPositive(name: string, value: number): void {
  if (value >= 1 && (Number.isInteger(value) || value === Infinity)) return;
  throw new RangeError(`${name} is ${value}, not a whole number from 1 on`);
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

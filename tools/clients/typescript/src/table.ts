/** Reads of versions, by the requests of DynamoDB's read API. */

import {
  BatchGetItemCommand,
  DescribeTableCommand,
  type DynamoDBClient,
  GetItemCommand,
  paginateQuery,
  type QueryCommandInput,
} from "@aws-sdk/client-dynamodb";
import {
  CopiedTable,
  EntityNotFound,
  InvalidLatest,
  LimitReached,
  UnknownTime,
  VersionNotFound,
  VersionPruned,
} from "./errors.js";
import { CONFIG, FLOOR_KEY, isExpired, isVersion, type Item, LATEST_KEY, Layout, text, whole } from "./layout.js";
import * as times from "./times.js";
import { clientTime, flat, joined, partKeys, type Version, view } from "./version.js";

/** Maximum number of keys of BatchGetItem. */
const MAX_KEYS = 100;
/** Number of versions in the first page of a search by the client's time. */
const FIRST_PAGE = 10;
/** Maximum number of requests in a row that DynamoDB does not process. */
const MAX_ATTEMPTS = 8;

export interface ReadOptions {
  /** False for eventually consistent reads, at half the capacity. Default true. */
  consistent?: boolean | undefined;
}

export interface HistoryOptions {
  /** True for ascending order. Default false. */
  oldestFirst?: boolean | undefined;
  /** First version of the range. Default 1. */
  first?: number | undefined;
  /** Last version of the range. Default the latest. */
  last?: number | undefined;
  /** Maximum number of versions. */
  limit?: number | undefined;
  /** Maximum number of versions of a page. Default 100. */
  pageSize?: number | undefined;
}

/** A table of latest items, with its history. Reads are strongly consistent by default. The layout is read once. */
export class Table {
  readonly #consistent: boolean;
  #layout: Promise<Layout> | undefined;

  constructor(
    readonly client: DynamoDBClient,
    readonly name: string,
    options: ReadOptions = {},
  ) {
    this.#consistent = options.consistent ?? true;
  }

  /**
   * Returns the layout of the table.
   *
   * @throws InvalidLayout, CopiedTable
   */
  layout(): Promise<Layout> {
    this.#layout ??= this.#readLayout();
    // A failed request is repeated by the next read.
    this.#layout.catch(() => (this.#layout = undefined));
    return this.#layout;
  }

  async #readLayout(): Promise<Layout> {
    const config = await this.#getFrom(this.name, ...CONFIG);
    const layout = Layout.of(config);
    if (config !== undefined) await this.#checkTable(config);
    return layout;
  }

  /** Checks that this table stored the layout. An endpoint without ids has ARNs. */
  async #checkTable(config: Item): Promise<void> {
    const { Table: described } = await this.client.send(new DescribeTableCommand({ TableName: this.name }));
    const id = text(config, "TableId");
    if (id !== undefined && id === (described?.TableId ?? described?.TableArn)) return;
    throw new CopiedTable(this.name, text(config, "TableName"));
  }

  /**
   * Reads the latest version, which can be a tombstone.
   *
   * @throws EntityNotFound, InvalidLatest
   */
  async latest(entity: string): Promise<Version> {
    const item = await this.#getFrom(this.name, entity, LATEST_KEY);
    if (item === undefined) throw new EntityNotFound(entity);
    return view(entity, counter(entity, item), item);
  }

  /**
   * Reads a version by its number. The latest item supplies its version until it is in history.
   *
   * @throws EntityNotFound, VersionNotFound, VersionPruned, InvalidLatest
   */
  async version(entity: string, version: number): Promise<Version> {
    const item = await this.#versionItem(entity, version);
    if (item !== undefined) return view(entity, version, item);
    const newest = await this.#newest(entity);
    if (newest.number === version) return newest;
    throw await this.#missing(entity, version, newest.number);
  }

  /**
   * Reads the version that was the latest at a time, by `RecordedAt`. Undefined if the entity did not exist yet. It is a binary
   * search: log2 N reads.
   *
   * @throws EntityNotFound, VersionNotFound, VersionPruned, UnknownTime, InvalidLatest, RangeError for an invalid time
   */
  async asOf(entity: string, time: string | Date): Promise<Version | undefined> {
    const limit = times.text(times.ofArgument(time));
    let newest = await this.#newest(entity);
    const latest = newest.number;
    for (;;) {
      const found = await this.#asOfInSequence(entity, newest, limit, latest);
      const before = newest.recordedSince - 1;
      if (found !== undefined || before < 1) return found;
      // A time before the whole sequence is searched in the one before.
      const item = await this.#versionItem(entity, before);
      if (item === undefined) throw await this.#missing(entity, before, latest);
      newest = view(entity, before, item);
    }
  }

  /** Searches the versions of one sequence of times, of which this one is the newest. */
  async #asOfInSequence(entity: string, newest: Version, limit: string, latest: number): Promise<Version | undefined> {
    let undecided: Error | undefined;
    try {
      // The latest item of another program has no time, but its version item has.
      const probed = newest.recordedAt === undefined ? await this.#probe(entity, newest.number, latest) : newest;
      if (recorded(probed) <= limit) return probed;
    } catch (error) {
      undecided = undecidable(error);
    }
    // Each version below `low` is not later, or was pruned. Each one from `high` on is later, or undecided.
    let [low, high] = [newest.recordedSince, newest.number];
    let found: Version | undefined;
    let pruned: VersionPruned | undefined;
    while (low < high) {
      const middle = low + Math.floor((high - low) / 2);
      try {
        const earlier = await this.#firstOf(entity, middle, high, limit, latest);
        if (earlier === undefined) [high, undecided] = [middle, undefined];
        else [low, found] = [earlier.number + 1, earlier];
      } catch (caught) {
        const error = undecidable(caught);
        const floor = await this.#floor(entity);
        if (floor <= middle) [high, undecided] = [middle, error];
        else [low, found, pruned] = [floor, undefined, new VersionPruned(floor)];
      }
    }
    if (undecided !== undefined) throw undecided;
    if (found === undefined && pruned !== undefined) throw pruned;
    return found;
  }

  /**
   * Reads the highest version whose `Time` or `Timestamp` is not later. Undefined if there is none. It reads versions newest
   * first, at most `limit`.
   *
   * @throws LimitReached, UnknownTime, RangeError for a limit below 1, and as `asOf` does
   */
  async effectiveAt(
    entity: string,
    time: string | Date,
    options: { limit?: number | undefined } = {},
  ): Promise<Version | undefined> {
    const limit = options.limit ?? Infinity;
    checkPositive("limit", limit);
    const wanted = times.ofArgument(time);
    const newest = await this.#newest(entity);
    const isInEffect = (version: Version) => {
      const own = clientTime(version);
      return own !== undefined && own <= wanted;
    };
    if (isInEffect(newest)) return newest;
    let [read, last, size] = [1, newest.number - 1, FIRST_PAGE];
    while (last > 0) {
      if (read >= limit) throw new LimitReached(read);
      const first = Math.max(1, last - Math.min(size, limit - read) + 1);
      const page = new Map((await this.#byKeys(entity, range(first, last))).map((found) => [found.number, found]));
      for (let number = last; number >= first; number--) {
        const found = page.get(number);
        if (found === undefined) throw await this.#missing(entity, number, newest.number);
        if (isInEffect(found)) return found;
      }
      [read, last, size] = [read + last - first + 1, first - 1, MAX_KEYS];
    }
    return undefined;
  }

  /**
   * Reads versions newest first, page by page. A page is not empty. Versions that are not stored are left out; the latest item
   * supplies its version. To continue later, pass `last` or `first` one beyond the last version that was read.
   *
   * @throws EntityNotFound, InvalidLatest, RangeError for a limit or page size below 1
   */
  async *history(entity: string, options: HistoryOptions = {}): AsyncGenerator<Version[], void> {
    const { oldestFirst = false, first = 1, limit = Infinity, pageSize = MAX_KEYS } = options;
    checkPositive("limit", limit);
    checkPositive("pageSize", pageSize);
    const newest = await this.#newest(entity);
    const last = Math.min(options.last ?? newest.number, newest.number);
    let left = limit;
    let pending = first <= newest.number && newest.number <= last;
    let carried: Version[] = [];
    for await (const page of this.#pages(entity, Math.max(first, 1), last, oldestFirst, pageSize)) {
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
    const table = layout.history ?? this.name;
    const input = keysBetween(table, entity, layout.key(first), layout.key(last));
    const pages = paginateQuery(
      { client: this.client, pageSize: size },
      { ...input, ScanIndexForward: oldestFirst, ConsistentRead: this.#consistent },
    );
    for await (const page of pages) {
      const found = await this.#views(layout, entity, page.Items ?? [], table);
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
      const page = await this.#byKeys(entity, numbers);
      yield oldestFirst ? page : page.reverse();
      if (page.length > 0) continue;
      // A gap can be wide: look up which versions exist.
      const existing = (await this.#stored(entity)).filter((number) => first <= number && number <= last);
      if (!oldestFirst) existing.reverse();
      for (let start = 0; start < existing.length; start += size) {
        const found = await this.#byKeys(entity, existing.slice(start, start + size));
        yield oldestFirst ? found : found.reverse();
      }
      return;
    }
  }

  /** Reads at most 100 versions by their keys, in ascending order. */
  async #byKeys(entity: string, versions: number[]): Promise<Version[]> {
    if (versions.length === 0) return [];
    const layout = await this.layout();
    const keys = versions.map((version) => ({ PK: { S: entity }, SK: { S: layout.key(version) } }));
    const table = layout.history ?? this.name;
    const found = await this.#views(layout, entity, await this.#batchGet(table, keys), table);
    return found.sort((a, b) => a.number - b.number);
  }

  async #batchGet(table: string, keys: Item[]): Promise<Item[]> {
    const items: Item[] = [];
    let attempts = 0;
    let left: Item[] = keys;
    while (left.length > 0) {
      const request = { [table]: { Keys: left, ConsistentRead: this.#consistent } };
      const output = await this.client.send(new BatchGetItemCommand({ RequestItems: request }));
      const got = output.Responses?.[table] ?? [];
      items.push(...got);
      left = output.UnprocessedKeys?.[table]?.Keys ?? [];
      attempts = got.length > 0 ? 0 : attempts + 1;
      if (left.length === 0) break;
      if (attempts >= MAX_ATTEMPTS) throw new Error("DynamoDB does not process the keys: the table is throttled");
      await new Promise((resolve) => setTimeout(resolve, 50 * 2 ** attempts));
    }
    return items;
  }

  /** Returns the versions that have an item, in ascending order. It reads the keys of the entity. */
  async #stored(entity: string): Promise<number[]> {
    const layout = await this.layout();
    const versions = new Set<number>();
    const input = { ...keysBetween(layout.history ?? this.name, entity, "v", "w"), ProjectionExpression: "SK" };
    const pages = paginateQuery({ client: this.client }, { ...input, ConsistentRead: this.#consistent });
    for await (const page of pages) {
      for (const item of page.Items ?? []) {
        const version = layout.versionOf(text(item, "SK") ?? "");
        if (version !== undefined) versions.add(version);
      }
    }
    return [...versions].sort((a, b) => a - b);
  }

  async #views(layout: Layout, entity: string, items: Item[], table: string): Promise<Version[]> {
    const views: Version[] = [];
    for (const item of items) {
      const version = layout.versionOf(text(item, "SK") ?? "");
      if (version === undefined || isExpired(item)) continue;
      views.push(view(entity, version, await this.#flat(item, table)));
    }
    return views;
  }

  /** Converts a version item to a flat one. Beside the latest items, it has an image only if it is compressed. */
  async #flat(item: Item, table: string): Promise<Item> {
    if (table === this.name && item.ImageDeflate === undefined) return item;
    const further: Item[] = [];
    for (const key of partKeys(item)) {
      const part = await this.#storedItem(table, text(item, "PK") ?? "", key, true);
      if (part === undefined) return item;
      further.push(part);
    }
    return flat(further.length === 0 ? item : joined(item, further));
  }

  /** Reads the latest item, or the highest version in history if there is none. */
  async #newest(entity: string): Promise<Version> {
    const latest = await this.#getFrom(this.name, entity, LATEST_KEY);
    if (latest?.Latest !== undefined) return view(entity, counter(entity, latest), latest);
    for (const version of (await this.#stored(entity)).reverse()) {
      const item = await this.#versionItem(entity, version);
      if (item !== undefined) return view(entity, version, item);
    }
    throw latest === undefined ? new EntityNotFound(entity) : new InvalidLatest(entity);
  }

  /**
   * Returns the first version from `middle` on that is not later, undefined if all are later. A time that comes from the stream
   * can also be later than that of the next version.
   */
  async #firstOf(
    entity: string,
    middle: number,
    high: number,
    limit: string,
    latest: number,
  ): Promise<Version | undefined> {
    for (let version = middle; version < high; version++) {
      const probed = await this.#probe(entity, version, latest);
      if (recorded(probed) <= limit) return probed;
      if (!probed.recordedByStream) return undefined;
    }
    return undefined;
  }

  async #probe(entity: string, version: number, latest: number): Promise<Version> {
    const item = await this.#versionItem(entity, version);
    if (item === undefined) throw await this.#missing(entity, version, latest);
    const probed = view(entity, version, item);
    recorded(probed);
    return probed;
  }

  async #missing(entity: string, version: number, latest: number): Promise<VersionNotFound | VersionPruned> {
    const floor = await this.#floor(entity);
    return version >= 1 && version < floor ? new VersionPruned(floor) : new VersionNotFound(version, floor, latest);
  }

  /** Reads the first version of history: 1, unless it was pruned. Below, only pinned versions remain. */
  async #floor(entity: string): Promise<number> {
    const item = await this.#get(entity, FLOOR_KEY);
    const floor = item === undefined ? undefined : whole(item, "Floor");
    return floor !== undefined && floor >= 1 ? floor : 1;
  }

  async #versionItem(entity: string, version: number): Promise<Item | undefined> {
    if (!isVersion(version)) return undefined;
    const layout = await this.layout();
    const item = await this.#get(entity, layout.key(version));
    return item === undefined || isExpired(item) ? undefined : item;
  }

  /** Reads an item of history. */
  async #get(entity: string, sortKey: string): Promise<Item | undefined> {
    const layout = await this.layout();
    const table = layout.history ?? this.name;
    const item = await this.#getFrom(table, entity, sortKey);
    return item === undefined || sortKey === FLOOR_KEY ? item : await this.#flat(item, table);
  }

  async #getFrom(table: string, entity: string, sortKey: string): Promise<Item | undefined> {
    return this.#storedItem(table, entity, sortKey, this.#consistent);
  }

  async #storedItem(table: string, entity: string, sortKey: string, consistent: boolean): Promise<Item | undefined> {
    const key = { PK: { S: entity }, SK: { S: sortKey } };
    const input = { TableName: table, Key: key, ConsistentRead: consistent };
    return (await this.client.send(new GetItemCommand(input))).Item;
  }
}

function keysBetween(table: string, entity: string, from: string, to: string): QueryCommandInput {
  return {
    TableName: table,
    KeyConditionExpression: "PK = :pk AND SK BETWEEN :from AND :to",
    ExpressionAttributeValues: { ":pk": { S: entity }, ":from": { S: from }, ":to": { S: to } },
  };
}

function counter(entity: string, latest: Item): number {
  const counter = whole(latest, "Latest");
  if (counter === undefined || counter < 1) throw new InvalidLatest(entity);
  return counter;
}

function recorded(version: Version): string {
  if (version.recordedAt === undefined) throw new UnknownTime(version.number);
  return version.recordedAt;
}

function checkPositive(name: string, value: number): void {
  if (value >= 1 && (Number.isInteger(value) || value === Infinity)) return;
  throw new RangeError(`${name} is ${value}, not a whole number from 1 on`);
}

/** Returns an error that leaves a version undecided, and throws any other. */
function undecidable(error: unknown): Error {
  if (error instanceof VersionNotFound || error instanceof VersionPruned || error instanceof UnknownTime) return error;
  throw error;
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/** Requests for items, and the versions in them. */

import {
  BatchGetItemCommand,
  DescribeTableCommand,
  type DynamoDBClient,
  GetItemCommand,
  paginateQuery,
  type QueryCommandInput,
} from "@aws-sdk/client-dynamodb";
import { CopiedTable, EntityNotFound, InvalidLatest, VersionNotFound, VersionPruned } from "./errors.js";
import { CONFIG, FLOOR_KEY, isExpired, isVersion, type Item, LATEST_KEY, Layout, text, whole } from "./layout.js";
import { flat, joined, partKeys, type Version, view } from "./version.js";

/** Maximum number of keys of BatchGetItem. */
export const MAX_KEYS = 100;
/** Maximum number of requests in a row that DynamoDB does not process. */
const MAX_ATTEMPTS = 8;

/** Items of a table that this project writes, and of its history. */
export class Store {
  #layout: Promise<Layout> | undefined;

  constructor(
    readonly client: DynamoDBClient,
    readonly name: string,
    readonly consistent: boolean,
  ) {}

  /** Returns the layout of the table, which is read once. */
  layout(): Promise<Layout> {
    this.#layout ??= this.readLayout();
    // A failed request is repeated by the next read.
    this.#layout.catch(() => (this.#layout = undefined));
    return this.#layout;
  }

  protected async readLayout(): Promise<Layout> {
    const config = await this.getFrom(this.name, ...CONFIG);
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
   * Reads the latest version.
   *
   * @throws EntityNotFound, InvalidLatest
   */
  async latest(entity: string): Promise<Version> {
    const item = await this.getFrom(this.name, entity, LATEST_KEY);
    if (item === undefined) throw new EntityNotFound(entity);
    return view(entity, counter(entity, item), item);
  }

  /** Reads the latest version, or the highest one in history if there is no latest item. */
  async newest(entity: string): Promise<Version> {
    const latest = await this.getFrom(this.name, entity, LATEST_KEY);
    if (latest?.Latest !== undefined) return view(entity, counter(entity, latest), latest);
    for (const number of (await this.stored(entity)).reverse()) {
      const version = await this.version(entity, number);
      if (version !== undefined) return version;
    }
    throw latest === undefined ? new EntityNotFound(entity) : new InvalidLatest(entity);
  }

  /** Reads a version in history. */
  async version(entity: string, version: number): Promise<Version | undefined> {
    if (!isVersion(version)) return undefined;
    const layout = await this.layout();
    const item = await this.#get(entity, layout.key(version));
    return item === undefined || isExpired(item) ? undefined : this.view(layout, entity, version, item);
  }

  /** Reads the items with these sort keys and those between them, page by page. */
  async *query(
    entity: string,
    first: string,
    last: string,
    oldestFirst: boolean,
    size: number,
  ): AsyncGenerator<Item[], void> {
    const input = { ...(await this.#between(entity, first, last)), ScanIndexForward: oldestFirst };
    for await (const page of paginateQuery({ client: this.client, pageSize: size }, input)) yield page.Items ?? [];
  }

  /** Reads at most 100 versions by their keys, in ascending order. */
  async byKeys(entity: string, versions: number[]): Promise<Version[]> {
    if (versions.length === 0) return [];
    const layout = await this.layout();
    const keys = versions.map((version) => ({ PK: { S: entity }, SK: { S: layout.key(version) } }));
    const found = await this.views(entity, await this.#batchGet(layout.history ?? this.name, keys));
    return found.sort((a, b) => a.number - b.number);
  }

  async #batchGet(table: string, keys: Item[]): Promise<Item[]> {
    const items: Item[] = [];
    let attempts = 0;
    let left: Item[] = keys;
    while (left.length > 0) {
      const request = { [table]: { Keys: left, ConsistentRead: this.consistent } };
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
  async stored(entity: string): Promise<number[]> {
    const layout = await this.layout();
    const versions = new Set<number>();
    const input = { ...(await this.#between(entity, "v", "w")), ProjectionExpression: "SK" };
    for await (const page of paginateQuery({ client: this.client }, input)) {
      for (const item of page.Items ?? []) {
        const version = layout.versionOf(text(item, "SK") ?? "");
        if (version !== undefined) versions.add(version);
      }
    }
    return [...versions].sort((a, b) => a - b);
  }

  /** Returns the versions in items of history, without other items and expired ones. */
  async views(entity: string, items: Item[]): Promise<Version[]> {
    const layout = await this.layout();
    const views: Version[] = [];
    for (const item of items) {
      const version = layout.versionOf(text(item, "SK") ?? "");
      if (version === undefined || isExpired(item)) continue;
      views.push(this.view(layout, entity, version, await this.#whole(layout, item)));
    }
    return views;
  }

  /** Returns why history does not have a version. */
  async missing(entity: string, version: number, latest: number): Promise<VersionNotFound | VersionPruned> {
    const floor = await this.floor(entity);
    return version >= 1 && version < floor ? new VersionPruned(floor) : new VersionNotFound(version, floor, latest);
  }

  /** Reads the first version of history: 1, unless it was pruned. Below, only pinned versions remain. */
  async floor(entity: string): Promise<number> {
    const item = await this.#get(entity, FLOOR_KEY);
    const floor = item === undefined ? undefined : whole(item, "Floor");
    return floor !== undefined && floor >= 1 ? floor : 1;
  }

  /** Creates the view of a version item. Beside the latest items, it has an image only if it is compressed. */
  protected view(layout: Layout, entity: string, version: number, item: Item): Version {
    const hasImage = layout.history !== null || item.ImageDeflate !== undefined;
    return view(entity, version, hasImage ? flat(item) : item);
  }

  async #between(entity: string, first: string, last: string): Promise<QueryCommandInput> {
    return {
      TableName: (await this.layout()).history ?? this.name,
      KeyConditionExpression: "PK = :pk AND SK BETWEEN :from AND :to",
      ExpressionAttributeValues: { ":pk": { S: entity }, ":from": { S: first }, ":to": { S: last } },
      ConsistentRead: this.consistent,
    };
  }

  /** Adds the further parts of a version item. */
  async #whole(layout: Layout, item: Item): Promise<Item> {
    const further: Item[] = [];
    for (const key of partKeys(item)) {
      const part = await this.getFrom(layout.history ?? this.name, text(item, "PK") ?? "", key, true);
      if (part === undefined) return item;
      further.push(part);
    }
    return further.length === 0 ? item : joined(item, further);
  }

  /** Reads an item of history. */
  async #get(entity: string, sortKey: string): Promise<Item | undefined> {
    const layout = await this.layout();
    const item = await this.getFrom(layout.history ?? this.name, entity, sortKey);
    return item && this.#whole(layout, item);
  }

  protected async getFrom(
    table: string,
    entity: string,
    sortKey: string,
    consistent = this.consistent,
  ): Promise<Item | undefined> {
    const key = { PK: { S: entity }, SK: { S: sortKey } };
    const input = { TableName: table, Key: key, ConsistentRead: consistent };
    return (await this.client.send(new GetItemCommand(input))).Item;
  }
}

function counter(entity: string, latest: Item): number {
  const counter = whole(latest, "Latest");
  if (counter === undefined || counter < 1) throw new InvalidLatest(entity);
  return counter;
}

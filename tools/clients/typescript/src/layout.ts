/** Keys of version items, and the table in which they are. */

import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import { InvalidLayout } from "./errors.js";

export const LATEST_KEY = "v0";
export const FLOOR_KEY = "floor";
export const CONFIG = ["#vzero", "config"] as const;

/** Item as DynamoDBClient returns it. */
export type Item = Record<string, AttributeValue>;

/** Layout of a table: the width of its version keys, and the table of its history. */
export class Layout {
  constructor(
    /** Minimum number of digits in a version's sort key. */
    readonly digits = 1,
    /** Table of history, null if history is beside the latest items. */
    readonly history: string | null = null,
  ) {}

  /**
   * Reads the item `#vzero`, `config`. A table without it has the default layout.
   *
   * @throws InvalidLayout
   */
  static of(config: Item | undefined): Layout {
    if (config === undefined) return new Layout();
    const [digits, history] = [whole(config, "VersionDigits"), config.HistoryTable];
    if (digits === undefined || digits < 1 || digits > 20) throw new InvalidLayout();
    if (history !== undefined && history.S === undefined) throw new InvalidLayout();
    return new Layout(digits, history?.S ?? null);
  }

  /** Returns the sort key of a version item. */
  key(version: number): string {
    return `v${version.toString().padStart(this.digits, "0")}`;
  }

  /** Returns the version with this sort key, undefined for any other item, and above Number.MAX_SAFE_INTEGER. */
  versionOf(key: string): number | undefined {
    if (!/^v[0-9]{1,20}$/.test(key)) return undefined;
    const version = Number(key.slice(1));
    return isVersion(version) && this.key(version) === key ? version : undefined;
  }

  /** Greatest version up to which the order of keys is that of versions, 0 if there is none. */
  get widest(): number {
    return this.digits === 1 ? 0 : Math.min(10 ** this.digits - 1, Number.MAX_SAFE_INTEGER);
  }
}

/** Returns true for the number of a version. */
export function isVersion(number: number): boolean {
  return Number.isSafeInteger(number) && number >= 1;
}

/** Returns the value of a string attribute. */
export function text(item: Item, name: string): string | undefined {
  return item[name]?.S;
}

/** Returns the value of a number attribute that is whole and exact in JavaScript. */
export function whole(item: Item, name: string): number | undefined {
  return wholeOf(item[name]?.N ?? "");
}

/** Returns the whole number in the text of a number, if it is exact in JavaScript. */
export function wholeOf(text: string): number | undefined {
  const number = Number(text);
  return /^-?[0-9]+(?:\.0+)?$/.test(text) && Number.isSafeInteger(number) ? number : undefined;
}

/** Returns true from the second of the item's TTL on. DynamoDB deletes the item within a few days. */
export function isExpired(item: Item): boolean {
  return Number(item.TTL?.N) <= Math.floor(Date.now() / 1000);
}

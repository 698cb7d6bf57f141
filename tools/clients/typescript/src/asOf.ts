/** The version that was the latest at a time: binary search by `RecordedAt`. */

import { UnknownTime, VersionNotFound, VersionPruned } from "./errors.js";
import type { Store } from "./store.js";
import { dividing, type Version } from "./version.js";

/**
 * Reads the last version whose `RecordedAt` is not later than a time.
 *
 * @throws VersionNotFound, VersionPruned, UnknownTime
 */
export async function asOf(store: Store, entity: string, limit: string): Promise<Version | undefined> {
  const latest = await store.newest(entity);
  const search = new Search(store, entity, limit, latest.number);
  let newest = latest;
  for (;;) {
    const [found, before] = [await search.bisect(newest), newest.recordedSince - 1];
    if (found !== undefined) return search.read(found);
    if (before < 1) return undefined;
    // A time before the whole sequence is searched in the one before.
    newest = await search.read(before);
  }
}

class Search {
  readonly #known = new Map<number, Version>();

  constructor(
    readonly store: Store,
    readonly entity: string,
    readonly limit: string,
    readonly latest: number,
  ) {}

  /** Searches the versions of one sequence of times, of which this one is the newest. */
  async bisect(newest: Version): Promise<number | undefined> {
    // Without a time, it is the latest item of another program, but its version item has one.
    if (newest.recordedAt !== undefined) this.#known.set(newest.number, newest);
    // Each version below `low` is not later, or was pruned. Each one from `high` on is later, or undecided.
    let [low, high, probed] = [newest.recordedSince, newest.number + 1, newest.number];
    let found: number | undefined;
    let undecided: Error | undefined;
    let pruned: VersionPruned | undefined;
    while (low < high) {
      try {
        const [after, version] = await this.#probe(probed, high);
        if (after === undefined) [high, undecided] = [version, undefined];
        else [low, found] = [after, version];
      } catch (caught) {
        const error = undecidable(caught);
        const floor = await this.store.floor(this.entity);
        if (floor <= probed) [high, undecided] = [probed, error];
        else [low, found, pruned] = [floor, undefined, new VersionPruned(floor)];
      }
      probed = low + Math.floor((high - low) / 2);
    }
    if (undecided !== undefined) throw undecided;
    if (found === undefined && pruned !== undefined) throw pruned;
    return found;
  }

  /**
   * Compares the time of a version. A late one stands for the last version before it that is not late.
   *
   * Returns the number from which to search, and a version that is not later; or undefined, and the first version that is later. A
   * time that comes from the stream can also be later than that of the next version.
   */
  async #probe(probed: number, high: number): Promise<[number | undefined, number]> {
    for (let number = probed; number < high; number++) {
      const version = await this.read(number);
      const [divides, recorded] = dividing(version);
      if (recorded === undefined) throw new UnknownTime(divides);
      if (recorded <= this.limit) return [number + 1, divides];
      if (version.change !== undefined) return [undefined, divides];
      if (!version.recordedByStream) break;
    }
    return [undefined, probed];
  }

  async read(number: number): Promise<Version> {
    const version = this.#known.get(number) ?? (await this.store.version(this.entity, number));
    if (version === undefined) throw await this.store.missing(this.entity, number, this.latest);
    this.#known.set(number, version);
    return version;
  }
}

/** Returns an error that leaves a version undecided, and throws any other. */
function undecidable(error: unknown): Error {
  if (error instanceof VersionNotFound || error instanceof VersionPruned || error instanceof UnknownTime) return error;
  throw error;
}

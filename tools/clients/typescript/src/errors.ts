/** Reasons why a version cannot be read. Errors of requests are those of the SDK. */

/** Base class of all errors of this package. */
export class ReadError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/** The entity does not exist. */
export class EntityNotFound extends ReadError {
  constructor(readonly entity: string) {
    super(`${entity} does not exist`);
  }
}

/**
 * History does not have the version: it was not written yet, the stream lags, or there is a gap. `first` and `latest` bound the
 * versions that exist.
 */
export class VersionNotFound extends ReadError {
  constructor(
    readonly version: number,
    readonly first: number,
    readonly latest: number,
  ) {
    const reason = Number.isInteger(version) && version >= 1 && version <= latest ? "is not in the history yet" : "does not exist";
    super(`version ${version} ${reason}: versions are ${first} to ${latest}`);
  }
}

/** The version was pruned. History begins at the version `floor`. */
export class VersionPruned extends ReadError {
  constructor(readonly floor: number) {
    super(`it was pruned: history begins at version ${floor}`);
  }
}

/** The time of a version that decides is missing, or cannot be read. */
export class UnknownTime extends ReadError {
  constructor(readonly version: number) {
    super(`the time of version ${version} is not known`);
  }
}

/** None of the newest `read` versions has the time or an earlier one. */
export class LimitReached extends ReadError {
  constructor(readonly read: number) {
    super(`none of the ${read} newest versions has this time or an earlier one`);
  }
}

/** The latest item has no valid `Latest`: another program wrote it. `vzero admin repair` adds one. */
export class InvalidLatest extends ReadError {
  constructor(readonly entity: string) {
    super(`the latest item of ${entity} has no valid Latest, which \`vzero admin repair\` adds`);
  }
}

/** The table has the layout of another one, which was copied with its items. `vzero admin table adopt` replaces it. */
export class CopiedTable extends ReadError {
  constructor(
    readonly table: string,
    /** Name of the other table, undefined if the layout has none. */
    readonly original: string | undefined,
  ) {
    super(`the table ${table} has the layout of another table (${original}): see \`vzero admin table adopt --help\``);
  }
}

/** The table `history` does not have the history of the attached table `table`. */
export class NotAttached extends ReadError {
  constructor(
    readonly table: string,
    readonly history: string,
  ) {
    super(`${history} is not the history of an attached table ${table}`);
  }
}

/** The item `#vzero`, `config` of the table cannot be read. */
export class InvalidLayout extends ReadError {
  constructor() {
    super("the table's layout cannot be read");
  }
}

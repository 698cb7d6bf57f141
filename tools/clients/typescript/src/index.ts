/** Reads versions of DynamoDB items: the latest, by number, as of a time, and the history of an entity. */
export {
  CopiedTable,
  EntityNotFound,
  InvalidLatest,
  InvalidLayout,
  LimitReached,
  ReadError,
  UnknownTime,
  VersionNotFound,
  VersionPruned,
} from "./errors.js";
export { Layout } from "./layout.js";
export { type HistoryOptions, type ReadOptions, Table } from "./table.js";
export { type Attribute, type Attributes, NumberValue, type Version } from "./version.js";

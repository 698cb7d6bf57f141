/** Reads versions of DynamoDB items: the latest, by number, as of a time, the history of an entity, and its changes. */
export { type AttachedOptions, AttachedTable, type Key, type KeyValue } from "./attached.js";
export { type Change, diff } from "./diff.js";
export {
  CopiedTable,
  EntityNotFound,
  InvalidLatest,
  InvalidLayout,
  LimitReached,
  NotAttached,
  ReadError,
  UnknownTime,
  VersionNotFound,
  VersionPruned,
} from "./errors.js";
export { Layout } from "./layout.js";
export { type HistoryOptions, type LogEntry, type LogOptions, type ReadOptions, Table } from "./table.js";
export { type Attribute, type Attributes, NumberValue, type StreamChange, type Version } from "./version.js";

/** Times with nanoseconds, as whole numbers since 1970. */

const DATE = /(?<year>\d{4})(?:-(?<month>\d\d)-(?<day>\d\d)|(?<month2>\d\d)(?<day2>\d\d))/;
const CLOCK = /(?<hour>\d\d)(?::?(?<minute>\d\d)(?::?(?<second>\d\d)(?:[.,](?<fraction>\d{1,9}))?)?)?/;
const OFFSET = /[Zz]|(?<sign>[+-])(?<offsetHour>\d\d)(?::?(?<offsetMinute>\d\d))?/;
const TIME = new RegExp(`^${DATE.source}(?:[Tt ]${CLOCK.source}(?:${OFFSET.source})?)?$`);

/** Parses an ISO 8601 date and time. A time without an offset is UTC. Undefined if it is not one. */
export function parse(text: string): bigint | undefined {
  const part = TIME.exec(text)?.groups;
  if (part === undefined) return undefined;
  const number = (name: string) => Number(part[name] ?? 0);
  const [month, day] = part.month === undefined ? [number("month2"), number("day2")] : [number("month"), number("day")];
  const [hour, minute, second] = [number("hour"), number("minute"), number("second")];
  const [offsetHour, offsetMinute] = [number("offsetHour"), number("offsetMinute")];
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 25 || offsetMinute > 59) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(number("year"), month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  date.setUTCHours(hour, minute, Math.min(second, 59));
  const offset = (offsetHour * 60 + offsetMinute) * 60_000 * (part.sign === "-" ? -1 : 1);
  return BigInt(date.getTime() - offset) * 1_000_000n + BigInt((part.fraction ?? "").padEnd(9, "0"));
}

/**
 * Converts a time that a caller names.
 *
 * @throws RangeError if it is invalid
 */
export function ofArgument(time: string | Date): bigint {
  if (time instanceof Date) return BigInt(time.getTime()) * 1_000_000n;
  const nanos = parse(time);
  if (nanos === undefined) throw new RangeError(`${JSON.stringify(time)} is not an ISO 8601 date and time`);
  return nanos;
}

/** Returns the text of a time in UTC with nine decimal places. Texts sort as times. */
export function text(nanos: bigint): string {
  const fraction = ((nanos % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const seconds = new Date(Number((nanos - fraction) / 1_000_000n)).toISOString().slice(0, 19);
  return `${seconds}.${fraction.toString().padStart(9, "0")}Z`;
}

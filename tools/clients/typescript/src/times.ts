/** Times with nanoseconds, as whole numbers since 1970. */

const DATE = /(?<year>\d{4})(?:-(?<month>\d\d)-(?<day>\d\d)|(?<month2>\d\d)(?<day2>\d\d))/;
const CLOCK = /(?<hour>\d\d)(?::?(?<minute>\d\d)(?::?(?<second>\d\d)(?:[.,](?<fraction>\d{1,9}))?)?)?/;
const OFFSET = /[Zz]|(?<sign>[+-])(?<offsetHour>\d\d)(?::?(?<offsetMinute>\d\d))?/;
const TIME = new RegExp(`^${DATE.source}(?:[Tt ]${CLOCK.source}(?:${OFFSET.source})?)?$`);
// The years that four digits can represent.
const MIN = BigInt(Date.parse("0000-01-01T00:00:00Z")) * 1_000_000n;
const MAX = BigInt(Date.parse("9999-12-31T23:59:59.999Z")) * 1_000_000n + 999_999n;

/**
 * Parses an ISO 8601 date and time. A time without an offset is UTC. Undefined if it is not one, or not in the years 0 to 9999 in
 * UTC.
 */
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
  const nanos = BigInt(date.getTime() - offset) * 1_000_000n + BigInt((part.fraction ?? "").padEnd(9, "0"));
  return isInRange(nanos) ? nanos : undefined;
}

/**
 * Converts a time that a caller names.
 *
 * @throws RangeError if it is invalid
 */
export function ofArgument(time: string | Date): bigint {
  if (time instanceof Date) {
    // An invalid date is a RangeError here.
    const nanos = BigInt(time.getTime()) * 1_000_000n;
    if (!isInRange(nanos)) throw new RangeError(`${time.toISOString()} is not in the years 0 to 9999`);
    return nanos;
  }
  const nanos = parse(time);
  if (nanos === undefined) {
    throw new RangeError(`${JSON.stringify(time)} is not an ISO 8601 date and time in the years 0 to 9999 in UTC`);
  }
  return nanos;
}

function isInRange(nanos: bigint): boolean {
  return MIN <= nanos && nanos <= MAX;
}

/**
 * Returns the text of a time in UTC with nine decimal places. Texts sort as times. A time after the year 9999 becomes the last one
 * inside.
 */
export function text(time: bigint): string {
  const nanos = time < MAX ? time : MAX;
  const fraction = ((nanos % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const seconds = new Date(Number((nanos - fraction) / 1_000_000n)).toISOString().slice(0, 19);
  return `${seconds}.${fraction.toString().padStart(9, "0")}Z`;
}

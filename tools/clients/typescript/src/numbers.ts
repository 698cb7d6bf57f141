/** Decimal numbers of DynamoDB, by their digits. */

const NUMBER = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/;
const MAX_DIGITS = 38;

/** Returns the sign, the digits without zeros at both ends, and the exponent of the first digit. Undefined for another text. */
function parts(text: string): { sign: string; digits: string; exponent: number } | undefined {
  const match = NUMBER.exec(text);
  if (match === null) return undefined;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = match;
  const all = whole + fraction;
  const digits = all.replace(/^0+|0+$/g, "");
  if (all === "") return undefined;
  if (digits === "") return { sign: "", digits, exponent: 0 };
  const zeros = all.length - all.replace(/^0+/, "").length;
  return { sign: sign === "-" ? "-" : "", digits, exponent: Number(exponent) + whole.length - zeros - 1 };
}

/** Returns one text for all notations of a number. */
export function canonical(text: string): string {
  const number = parts(text);
  return number === undefined ? text : `${number.sign}${number.digits}e${number.exponent}`;
}

/**
 * Returns the text of a number in a key: plain if it has at most 38 digits with zeros, else `1e100`, `-1.5e-70`. Undefined for another
 * text.
 */
export function keyText(text: string): string | undefined {
  const number = parts(text);
  if (number === undefined) return undefined;
  const { sign, digits, exponent } = number;
  if (digits === "") return "0";
  if (exponent >= 0 && Math.max(exponent + 1, digits.length) <= MAX_DIGITS) {
    const [whole, fraction] = [digits.slice(0, exponent + 1).padEnd(exponent + 1, "0"), digits.slice(exponent + 1)];
    return sign + whole + (fraction && `.${fraction}`);
  }
  const places = -exponent - 1 + digits.length;
  if (exponent < 0 && places <= MAX_DIGITS) return `${sign}0.${digits.padStart(places, "0")}`;
  return `${sign}${digits[0]}${digits.slice(1) && `.${digits.slice(1)}`}e${exponent}`;
}

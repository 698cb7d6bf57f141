// Verifies a proof as docs/log-format.md describes it. It is of the same server as the page, so it convinces only those who trust that.
const HASH = /^[0-9a-f]{64}$/;
const TOKEN = /[ \t\n\r]*("(?:[^"\\]|\\.)*"|[[\]{},:]|true|false|null|0|[1-9][0-9]*)/gy;
const KINDS = ["Version", "Prune", "Purge", "Erase"];
const SETS = { SS: ["s", "S"], NS: ["n", "N"], BS: ["b", "B"] };

function need(holds, why) {
  if (!holds) throw new Error(why);
}

// Parses JSON in its one form: objects are Maps in their order, whole numbers are BigInts.
function parse(text) {
  const tokens = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    tokens.push(match[1]);
    end = match.index + match[0].length;
  }
  need(/^[ \t\n\r]*$/.test(text.slice(end)), "it is not JSON");
  let at = 0;
  const next = (expected) => need(tokens[at++] === expected, "it is not JSON");
  const list = (close, item) => {
    for (let first = true; tokens[at] !== close; first = false) {
      if (!first) next(",");
      item();
    }
    at += 1;
  };
  const string = () => {
    const token = tokens[at++] ?? "";
    need(token[0] === '"', "it is not JSON");
    const value = JSON.parse(token);
    need(JSON.stringify(value) === token && value.isWellFormed(), "a text is not in its one form");
    return value;
  };
  const value = (depth) => {
    need(depth < 128, "it is nested too deeply");
    const token = tokens[at];
    if (token?.[0] === '"') return string();
    at += 1;
    if (token === "[") {
      const all = [];
      list("]", () => all.push(value(depth + 1)));
      return all;
    }
    if (token === "{") {
      const all = new Map();
      list("}", () => {
        const name = string();
        next(":");
        need(!all.has(name), "a member of an object occurs twice");
        all.set(name, value(depth + 1));
      });
      return all;
    }
    need(/^[0-9tf]/.test(token ?? ""), "it is not JSON");
    if (token === "true" || token === "false") return token === "true";
    need(BigInt(token) < 1n << 64n, "a number is too large");
    return BigInt(token);
  };
  const all = value(0);
  need(at === tokens.length, "it is not JSON");
  return all;
}

const members = (object, ...names) => {
  need(object instanceof Map && object.size === names.length && [...object.keys()].join() === names.join(), "an object has other members than expected");
  return [...object.values()];
};
const array = (value) => (need(Array.isArray(value), "a list is expected"), value);

const join = (...parts) => {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => (all.set(part, at), at + part.length), 0);
  return all;
};
const whole = (number, bytes) => Uint8Array.from({ length: bytes }, (_, at) => Number((BigInt(number) >> BigInt(8 * (bytes - 1 - at))) & 255n));
const utf8 = (text) => (need(typeof text === "string", "a text is expected"), new TextEncoder().encode(text));
const sized = (bytes) => join(whole(bytes.length, 4), bytes);
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const hash = (text) => (need(HASH.test(text), "64 hexadecimal digits are expected"), Uint8Array.from(text.match(/../g), (two) => parseInt(two, 16)));
const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", join(...parts)));

function base64(text) {
  let data = null;
  try { data = atob(text); } catch { /* It is none. */ }
  need(typeof text === "string" && data !== null && btoa(data) === text, "a binary is not in base64");
  return Uint8Array.from(data, (character) => character.charCodeAt(0));
}

function number(text) {
  need(typeof text === "string" && /^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$/.test(text) && text !== "-0", "a number is not in its one form");
  const [, sign, integer, fraction = ""] = /^(-?)([0-9]+)\.?([0-9]+)?$/.exec(text);
  const digits = (integer + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  const power = digits.length - fraction.length - 1;
  need(significant.length <= 38 && (!significant || power >= -130 && power <= 125), "a number is out of range");
  return significant ? `${sign}${significant}e${power}` : "e0";
}

const element = (type, content) => (type === "S" ? utf8(content) : type === "B" ? base64(content) : utf8(number(content)));
const increase = (texts, why) => need(texts.every((text, at) => at === 0 || texts[at - 1] < text), why);

// The bytes of a value. Hexadecimal digits are in the order of their bytes.
function canonical(value, depth = 0) {
  need(value instanceof Map && value.size === 1, "a value has one type");
  const [[type, content]] = value;
  if ("SNB".includes(type) && type.length === 1) return join(utf8(type), sized(element(type, content)));
  if (type === "BOOL" && typeof content === "boolean") return utf8(content ? "T" : "F");
  if (type === "NULL" && content === true) return utf8("0");
  if (Object.hasOwn(SETS, type)) {
    const [tag, one] = SETS[type];
    const all = array(content).map((each) => element(one, each));
    need(all.length, "a set is empty");
    increase(one === "N" ? content : all.map(hex), "a set is not sorted, or has equal elements");
    const sorted = all.map(hex).sort();
    increase(sorted, "a set has equal elements");
    return join(utf8(tag), whole(all.length, 4), ...all.sort((a, b) => (hex(a) < hex(b) ? -1 : 1)).map(sized));
  }
  need(depth < 32, "a value is nested too deeply");
  if (type === "L") return join(utf8("L"), whole(array(content).length, 4), ...content.map((each) => canonical(each, depth + 1)));
  need(type === "M" && content instanceof Map, "a value has an unknown type");
  const all = [...content].map(([name, each]) => [utf8(name), canonical(each, depth + 1)]);
  increase(all.map(([name]) => hex(name)), "the members of a map are not sorted");
  return join(utf8("M"), whole(all.length, 4), ...all.flatMap(([name, each]) => [sized(name), each]));
}

// RFC 6962: the root of entries, and the root that follows from an audit path.
async function root(entries) {
  if (entries.length < 2) return entries.length ? sha256([0], entries[0]) : sha256();
  let split = 1;
  while (split * 2 < entries.length) split *= 2;
  return sha256([1], await root(entries.slice(0, split)), await root(entries.slice(split)));
}

async function rootOfPath(entry, leaf, size, path) {
  need(leaf < size, "the index is not in the tree");
  let [node, index, last] = [await sha256([0], entry), leaf, size - 1n];
  for (const sibling of path) {
    need(last > 0n, "the audit path is too long");
    const isRight = index % 2n === 1n || index === last;
    node = isRight ? await sha256([1], sibling, node) : await sha256([1], node, sibling);
    while (isRight && index % 2n === 0n && index !== 0n) [index, last] = [index / 2n, last / 2n];
    [index, last] = [index / 2n, last / 2n];
  }
  need(last === 0n, "the audit path is too short");
  return hex(node);
}

async function openCheckpoint(note, vkey) {
  const [, name, id, key] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(vkey.trim()) ?? [];
  const bytes = name ? base64(key) : [];
  need(bytes.length === 33 && bytes[0] === 1, "the verifier key is not one of Ed25519");
  need(hex((await sha256(utf8(`${name}\n`), bytes)).slice(0, 4)) === id, "the ID of the verifier key is wrong");
  const end = utf8(note) && note.lastIndexOf("\n\n") + 1;
  need(end && note.endsWith("\n") && !/[\0-\t\v-\x1f]/.test(note), "the checkpoint is no signed note");
  const [text, lines] = [note.slice(0, end), note.slice(end + 1, -1).split("\n")];
  let isSigned = false;
  for (const line of lines) {
    const [, signer, signature] = /^— ([^\s+]+) (\S+)$/.exec(line) ?? need(false, "the checkpoint is no signed note");
    const signed = base64(signature);
    need(signed.length > 4, "the checkpoint is no signed note");
    if (signer !== name || hex(signed.slice(0, 4)) !== id) continue;
    const known = await crypto.subtle.importKey("raw", bytes.slice(1), "Ed25519", false, ["verify"]);
    isSigned = await crypto.subtle.verify("Ed25519", known, signed.slice(4), utf8(text));
    need(isSigned, "the signature of the checkpoint is wrong");
  }
  need(isSigned, "the checkpoint is not signed by the verifier key");
  const fields = text.slice(0, -1).split("\n");
  need(fields.length >= 3 && fields.every(Boolean) && fields[0] === name, "the checkpoint is one of another log");
  need(/^(0|[1-9][0-9]{0,18})$/.test(fields[1]) && base64(fields[2]).length === 32, "the checkpoint has no size and root");
  return { log: name, size: BigInt(fields[1]), root: hex(base64(fields[2])) };
}

async function shownMember(member, document, version) {
  const space = member instanceof Map && member.has("Metadata") ? "Metadata" : "Attribute";
  const [names, salt, value] = members(member, space, "Salt", "Value");
  need(array(names).length, "a path is empty");
  const bytes = canonical(value);
  need(!value.get("M")?.size, "a map is shown as one member");
  if (space === "Metadata") {
    need(names.length === 1, "metadata have one name");
    const expected = { Table: ["S", document.table], Entity: ["S", document.entity], Version: ["N", String(version)] };
    const [type, own] = (Object.hasOwn(expected, names[0]) && expected[names[0]]) || [];
    need(!type || value.get(type) === own, "it was sealed for another table, entity or version");
  }
  const [namespace, path] = [space === "Metadata" ? 1 : 0, names.map(utf8)];
  const pathBytes = sized(join([namespace], ...path.map(sized)));
  return { path: [namespace, ...path.map(hex)].join(" "), hash: hex(await sha256(utf8("vzero commitment 1\0"), hash(salt), pathBytes, bytes)) };
}

// Returns what a proof proves, or throws the reason why it does not hold.
export async function verify(text, vkey) {
  const [format, note, table, entity, key, leaves] = members(parse(text), "Format", "Checkpoint", "Table", "Entity", "EntityKey", "Leaves");
  need(format === "vzero-proof-1", "it has another format");
  const checkpoint = await openCheckpoint(note, vkey);
  const tag = await sha256(utf8("vzero entity 1\0"), hash(key), sized(utf8(table)), sized(utf8(entity)));
  const proven = { ...checkpoint, table, entity, versions: [], indices: [], shown: 0, withheld: 0 };
  for (const leaf of array(leaves)) {
    const [kind, version, index, inclusion, disclosed, withheld] = members(leaf, "Kind", "Version", "Index", "Inclusion", "Disclosed", "Withheld");
    const type = KINDS.indexOf(kind) + 1;
    need(type && typeof version === "bigint" && typeof index === "bigint", "a leaf is not in its form");
    need(!proven.indices.some((before) => before >= index), "leaves are out of order");
    need(type > 1 || !proven.versions.includes(version), "a version occurs twice");
    const shown = [];
    for (const member of array(disclosed)) {
      const { path, hash: own } = await shownMember(member, { table, entity }, version);
      const before = shown.at(-1)?.path;
      need(before === undefined || before < path && !path.startsWith(`${before} `), "members are out of order, twice, or inside of another one");
      shown.push({ path, own });
    }
    array(withheld).forEach(hash);
    increase(withheld, "withheld members are out of order");
    const commitments = [...withheld, ...shown.map(({ own }) => own)].sort();
    increase(commitments, "a commitment occurs twice");
    const content = await sha256(utf8("vzero content 1\0"), whole(commitments.length, 8), await root(commitments.map(hash)));
    const entry = join([1, type], tag, whole(version, 8), content);
    const path = array(inclusion).map(hash);
    need(await rootOfPath(entry, index, checkpoint.size, path) === checkpoint.root, `version ${version}: the log has no such leaf at index ${index}: something of it was changed`);
    proven.indices.push(index);
    if (type === 1) proven.versions.push(version);
    proven.shown += shown.length;
    proven.withheld += withheld.length;
  }
  need(proven.indices.length, "it has no leaf");
  return proven;
}

async function canVerify() {
  if (!crypto.subtle) return "Browsers verify only on HTTPS and on this machine.";
  try {
    await crypto.subtle.importKey("raw", new Uint8Array(32), "Ed25519", false, ["verify"]);
    return String.prototype.isWellFormed ? "" : "This browser is too old to verify.";
  } catch {
    return "This browser cannot verify Ed25519 signatures.";
  }
}

async function result({ proof, vkey, version }) {
  const cannot = await canVerify();
  if (cannot) return [`${cannot} Download the proof, and use vzero verify.`];
  const response = await fetch(proof, { headers: { Accept: "application/json" } });
  const text = await response.text();
  if (!response.ok) return [`Not proven: ${JSON.parse(text).Error}`];
  try {
    const proven = await verify(text, vkey);
    need(proven.versions.join() === version, "it is the proof of another version");
    return [
      `The proof holds. The key of ${proven.log} signed a tree of ${proven.size} leaves, and version ${version} is the leaf at index ${proven.indices[0]}.`,
      `${proven.shown} members of it are shown, and were committed for this table, entity and version. ${proven.withheld} are withheld or erased.`,
      "It does not prove that a value is true, or who wrote it, or when, and the page and this check come from the same server. "
      + "Somebody who does not trust the server downloads the proof, and uses vzero verify with the vkey that he received another way.",
    ];
  } catch (error) {
    return [`The proof does not hold: ${error.message}`];
  }
}

for (const button of globalThis.document?.querySelectorAll("button[data-proof]") ?? []) {
  const output = document.getElementById("verified");
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    const lines = await result(button.dataset).catch(() => ["The proof cannot be read: reload the page."]);
    output.replaceChildren(...lines.map((line) => Object.assign(document.createElement("p"), { textContent: line })));
    button.disabled = false;
  });
}

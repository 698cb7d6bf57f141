// Verifies a proof as docs/log-format.md describes it. It is of the same server as the page, so it convinces only those who trust that.
const KINDS = ["Version", "Prune", "Purge", "Erase"];
const SETS = { SS: ["s", "S"], NS: ["n", "N"], BS: ["b", "B"] };
const TOKEN = /"((?:[^"\\]|\\.)*)"|[ \t\n\r]+|[0-9]+/g;

function need(holds, why) {
  if (!holds) throw new Error(why);
}

// Parses JSON in its one form: objects are Maps, whole numbers are BigInts. Marks keep the order of names, and numbers apart from texts.
function parse(text) {
  const marked = text.replace(TOKEN, (all, string) => (string !== undefined ? `".${string}"` : all.trim() ? `"#${all}"` : all));
  const unmarked = (value) => {
    if (typeof value === "boolean") return value;
    if (Array.isArray(value)) return value.map(unmarked);
    if (value && typeof value === "object") return new Map(Object.entries(value).map(([name, each]) => [unmarked(name), unmarked(each)]));
    need(typeof value === "string" && value.isWellFormed() && /^(\.|#(0|[1-9][0-9]*)$)/.test(value), "it has another form");
    return value[0] === "." ? value.slice(1) : BigInt(value.slice(1));
  };
  const value = JSON.parse(marked);
  need(JSON.stringify(value) === marked.replace(TOKEN, (all, string) => (string === undefined ? "" : all)), "it is not in its one form");
  return unmarked(value);
}

const members = (object, ...names) => {
  const isSame = object instanceof Map && object.size === names.length && [...object.keys()].every((name, at) => name === names[at]);
  need(isSame, "an object has other members than expected");
  return [...object.values()];
};
const array = (value) => (need(Array.isArray(value), "a list is expected"), value);
const increase = (texts, why) => need(texts.every((text, at) => at === 0 || texts[at - 1] < text), why);

const join = (...parts) => Uint8Array.from(parts.flat().flatMap((part) => (typeof part === "number" ? part : [...part])));
const whole = (number, bytes) => Uint8Array.from({ length: bytes }, (_, at) => Number(BigInt.asUintN(8, BigInt(number) >> BigInt(8 * (bytes - 1 - at)))));
const utf8 = (text) => (need(typeof text === "string", "a text is expected"), new TextEncoder().encode(text));
const sized = (bytes) => join(whole(bytes.length, 4), bytes);
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const hash = (text) => (need(/^[0-9a-f]{64}$/.test(text), "64 hexadecimal digits are expected"), Uint8Array.from(text.match(/../g), (two) => parseInt(two, 16)));
const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", join(...parts)));
const base64 = (text) => {
  const data = atob(text);
  need(btoa(data) === text, "a binary is not in base64");
  return Uint8Array.from(data, (character) => character.charCodeAt(0));
};

function number(text) {
  need(typeof text === "string" && /^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$/.test(text) && text !== "-0", "a number is not in its one form");
  const [, sign, integer, fraction = ""] = /^(-?)([0-9]+)\.?([0-9]+)?$/.exec(text);
  const digits = (integer + fraction).replace(/^0+/, "");
  const [significant, power] = [digits.replace(/0+$/, ""), digits.length - fraction.length - 1];
  need(significant.length <= 38 && (!significant || power >= -130 && power <= 125), "a number is out of range");
  return significant ? `${sign}${significant}e${power}` : "e0";
}

// The bytes of a value. Hexadecimal digits are in the order of their bytes.
function canonical(value, depth = 0) {
  need(value instanceof Map && value.size === 1, "a value has one type");
  const [[type, content]] = value;
  const element = (of, each) => (of === "B" ? base64(each) : utf8(of === "N" ? number(each) : each));
  if (["S", "N", "B"].includes(type)) return join(utf8(type), sized(element(type, content)));
  if (type === "BOOL" && typeof content === "boolean") return utf8(content ? "T" : "F");
  if (type === "NULL" && content === true) return utf8("0");
  if (SETS[type]) {
    const [tag, of] = SETS[type];
    const all = array(content).map((each) => element(of, each));
    increase(of === "N" ? content : all.map(hex), "a set is not sorted, or has equal elements");
    need(all.length && new Set(all.map(hex)).size === all.length, "a set is empty, or has equal elements");
    return join(utf8(tag), whole(all.length, 4), all.sort((a, b) => (hex(a) < hex(b) ? -1 : 1)).map(sized));
  }
  need(depth < 33, "a value is nested too deeply");
  if (type === "L") return join(utf8("L"), whole(array(content).length, 4), content.map((each) => canonical(each, depth + 1)));
  need(type === "M" && content instanceof Map, "a value has an unknown type");
  increase([...content.keys()].map((name) => hex(utf8(name))), "the members of a map are not sorted");
  return join(utf8("M"), whole(content.size, 4), [...content].flatMap(([name, each]) => [sized(utf8(name)), canonical(each, depth + 1)]));
}

// RFC 6962: the root of entries, and the root that follows from an audit path.
async function root(entries) {
  if (entries.length < 2) return entries.length ? sha256([0], entries[0]) : sha256();
  const split = 2 ** Math.floor(Math.log2(entries.length - 1));
  return sha256([1], await root(entries.slice(0, split)), await root(entries.slice(split)));
}

async function rootOfPath(entry, index, size, path) {
  let [node, last] = [await sha256([0], entry), size - 1n];
  for (const sibling of path) {
    const isRight = index % 2n === 1n || index === last;
    node = isRight ? await sha256([1], sibling, node) : await sha256([1], node, sibling);
    while (isRight && index % 2n === 0n && index) [index, last] = [index / 2n, last / 2n];
    need(last, "an audit path is too long");
    [index, last] = [index / 2n, last / 2n];
  }
  return last ? "" : hex(node);
}

async function openCheckpoint(note, vkey) {
  const [, name, id, key] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(vkey.trim()) ?? need(false, "the verifier key is none");
  const [bytes] = [base64(key), utf8(note)];
  const ownId = hex(await sha256(utf8(`${name}\n`), bytes)).slice(0, 8);
  need(bytes.length === 33 && bytes[0] === 1 && ownId === id, "the verifier key is not one of Ed25519");
  const [, text, lines] = /^([^\0-\t\v-\x1f]*\n)\n((?:— [^\s+]+ \S+\n)+)$/.exec(note) ?? need(false, "the checkpoint is no signed note");
  const signed = lines.split("\n").slice(0, -1).map((line) => line.split(" ")).map(([, signer, signature]) => [signer, base64(signature)]);
  need(signed.every(([, data]) => data.length > 4), "the checkpoint is no signed note");
  const own = signed.filter(([signer, data]) => signer === name && hex(data.slice(0, 4)) === id);
  need(own.length, "the checkpoint is not signed by the verifier key");
  const known = await crypto.subtle.importKey("raw", bytes.slice(1), "Ed25519", false, ["verify"]);
  for (const [, data] of own) {
    need(await crypto.subtle.verify("Ed25519", known, data.slice(4), utf8(text)), "the signature of the checkpoint is wrong");
  }
  const [origin, size, top, ...more] = text.slice(0, -1).split("\n");
  need(origin === name && more.every(Boolean), "the checkpoint is one of another log");
  need(/^(0|[1-9][0-9]{0,18})$/.test(size) && BigInt(size) >> 63n === 0n && base64(top).length === 32, "the checkpoint has no size and root");
  return { log: name, size: BigInt(size), root: hex(base64(top)) };
}

async function shownMember(member, own) {
  const space = member instanceof Map && member.has("Metadata") ? "Metadata" : "Attribute";
  const [names, salt, value] = members(member, space, "Salt", "Value");
  const bytes = canonical(value);
  need(array(names).length && !value.get("M")?.size, "a path is empty, or a map is shown as one member");
  if (space === "Metadata") {
    const [, type, expected] = own.find(([name]) => name === names[0]) ?? [];
    need(names.length === 1 && (!type || value.get(type) === expected), "it was sealed for another table, entity or version");
  }
  const [namespace, path] = [Number(space === "Metadata"), names.map(utf8)];
  const committed = await sha256(utf8("vzero commitment 1\0"), hash(salt), sized(join([namespace], ...path.map(sized))), bytes);
  return { path: [namespace, ...path.map(hex)].join(" "), committed: hex(committed) };
}

// Returns what a proof proves, or throws the reason why it does not hold.
export async function verify(text, vkey) {
  const [format, note, table, entity, key, leaves] = members(parse(text), "Format", "Checkpoint", "Table", "Entity", "EntityKey", "Leaves");
  need(format === "vzero-proof-1", "it has another format");
  const checkpoint = await openCheckpoint(note, vkey);
  const tag = await sha256(utf8("vzero entity 1\0"), hash(key), sized(utf8(table)), sized(utf8(entity)));
  const proven = { ...checkpoint, versions: [], indices: [], shown: 0, withheld: 0 };
  for (const leaf of array(leaves)) {
    const [kind, version, index, inclusion, disclosed, withheld] = members(leaf, "Kind", "Version", "Index", "Inclusion", "Disclosed", "Withheld");
    const type = KINDS.indexOf(kind) + 1;
    need(type && [version, index].every((each) => typeof each === "bigint" && each < 1n << 64n), "a leaf has another form");
    need(index < checkpoint.size && !(proven.indices.at(-1) >= index), "leaves are out of order");
    need(type > 1 || !proven.versions.includes(version), "a version occurs twice");
    const own = [["Table", "S", table], ["Entity", "S", entity], ["Version", "N", String(version)]];
    const shown = await Promise.all(array(disclosed).map((member) => shownMember(member, own)));
    const isAfter = ({ path }, at) => !at || shown[at - 1].path < path && !path.startsWith(`${shown[at - 1].path} `);
    need(shown.every(isAfter), "members are out of order, twice, or inside of another one");
    array(withheld).forEach(hash);
    increase(withheld, "withheld members are out of order");
    const commitments = [...withheld, ...shown.map(({ committed }) => committed)].sort();
    increase(commitments, "a commitment occurs twice");
    const content = await sha256(utf8("vzero content 1\0"), whole(commitments.length, 8), await root(commitments.map(hash)));
    const entry = join([1, type], tag, whole(version, 8), content);
    const found = await rootOfPath(entry, index, checkpoint.size, array(inclusion).map(hash));
    need(found === checkpoint.root, `version ${version}: the log has no such leaf at index ${index}: something of it was changed`);
    proven.indices.push(index);
    if (type === 1) proven.versions.push(version);
    proven.shown += shown.length;
    proven.withheld += withheld.length;
  }
  need(proven.indices.length, "it has no leaf");
  return proven;
}

async function result({ proof, vkey, version }) {
  try {
    await crypto.subtle.importKey("raw", new Uint8Array(32), "Ed25519", false, ["verify"]);
  } catch {
    return ["This browser cannot verify Ed25519 signatures, or only on HTTPS and on this machine. Download the proof, and use vzero verify."];
  }
  const response = await fetch(proof, { headers: { Accept: "application/json" } });
  const text = await response.text();
  if (!response.ok) return [`Not proven: ${JSON.parse(text).Error}`];
  try {
    const proven = await verify(text, vkey);
    need(proven.versions.join() === version, "it is the proof of another version");
    return [
      `The proof holds. The key of ${proven.log} signed a tree of ${proven.size} leaves, and version ${version} is the leaf at index ${proven.indices[0]}.`,
      `${proven.shown} members of it are shown, and were committed for this table, entity and version. ${proven.withheld} are withheld or erased.`,
      "It does not prove that a value is true, or who wrote it, or when. This check comes from the server that made the proof: "
      + "somebody who does not trust it downloads the proof, and uses vzero verify with the vkey that he received another way.",
    ];
  } catch (error) {
    return [`The proof does not hold: ${error.message}`];
  }
}

for (const button of globalThis.document?.querySelectorAll("button[data-proof]") ?? []) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const lines = await result(button.dataset).catch(() => ["The proof cannot be read: reload the page."]);
    const shown = lines.map((line) => Object.assign(document.createElement("p"), { textContent: line }));
    document.getElementById("verified").replaceChildren(...shown);
  });
}

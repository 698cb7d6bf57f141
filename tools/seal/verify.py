#!/usr/bin/env python3
"""Verifies a proof of the provable history, from docs/log-format.md alone: independent of vzero.

Usage: verify.py proof.json --vkey FILE

Exit code 0: the proof holds. 1: it does not. 2: wrong usage.
Needs Python 3.9 and the package "cryptography".
"""
import argparse
import base64
import binascii
import functools
import hashlib
import json
import re
import sys

FORMAT = "vzero-proof-1"
KINDS = {"Version": 1, "Prune": 2, "Purge": 3, "Erase": 4}
DOCUMENT = ["Format", "Checkpoint", "Table", "Entity", "EntityKey", "Leaves"]
LEAF = ["Kind", "Version", "Index", "Inclusion", "Disclosed", "Withheld"]
U64 = 2**64
MAX_NESTING = 128      # of the JSON document
MAX_LEVELS = 33        # of lists and maps in a value
MAX_SIGNATURES, MAX_NOTE = 100, 2**20   # signed-note asks for at least 16

SETS = {"SS": ("s", "S"), "NS": ("n", "N"), "BS": ("b", "B")}
NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")
PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
WHOLE = re.compile(r"0|[1-9][0-9]{0,19}")
HASH = re.compile(r"[0-9a-f]{64}")
STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"?'  # or until the end, so that the time stays linear
SPACE = re.compile("(" + STRING + r")|[ \t\n\r]+", re.DOTALL)
BRACKETS = re.compile(STRING + r"|[][{}]", re.DOTALL)


class VerificationError(Exception):
    """The proof does not hold."""


def require(condition, reason):
    if not condition:
        raise VerificationError(reason)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def u64(number):
    require(type(number) is int and 0 <= number < U64, "a whole number is out of range")
    return number.to_bytes(8, "big")


def length(items):
    return len(items).to_bytes(4, "big")


def prefixed(data):
    return length(data) + data


def utf8(text):
    require(type(text) is str, "a text is expected")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise VerificationError("a text is not valid Unicode") from None


def base64_bytes(text):
    """Standard base64 with padding; only the one form that an encoder gives."""
    require(type(text) is str, "base64 is expected")
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        raise VerificationError("wrong base64") from None
    require(base64.b64encode(data).decode("ascii") == text, "wrong base64")
    return data


def hash_bytes(text):
    require(type(text) is str and HASH.fullmatch(text), "64 lowercase hexadecimal digits are expected")
    return bytes.fromhex(text)


def canonical_number(text, strict=False):
    """Sign, significant digits, "e", power of ten of the first digit."""
    require(type(text) is str, "a number must be a text")
    match = NUMBER.fullmatch(text)
    require(match, "wrong number")
    require(not strict or (PLAIN.fullmatch(text) and text != "-0"), "a number is not in its one form")
    sign, whole, fraction = match.group(1), match.group(2), match.group(3) or ""
    digits = (whole + fraction).lstrip("0")
    power = len(digits) - len(fraction) - 1
    digits = digits.rstrip("0")
    if not digits:
        return b"e0"
    require(len(digits) <= 38, "a number has more than 38 digits")
    require(-130 <= power <= 125, "a number is out of range")
    return f"{sign}{digits}e{power}".encode("ascii")


def canonical_element(kind, content, strict):
    """The bytes of a text, number or binary."""
    return canonical_number(content, strict) if kind == "N" else {"S": utf8, "B": base64_bytes}[kind](content)


def canonical_set(kind, content, strict):
    tag, element = SETS[kind]
    require(type(content) is list and content, "a set must be a list that is not empty")
    items = [canonical_element(element, item, strict) for item in content]
    require(len(set(items)) == len(items), "a set has equal elements")
    if strict:
        order = [utf8(item) for item in content] if element == "N" else items
        require(order == sorted(order), "a set is not sorted")
    return tag.encode("ascii") + length(items) + b"".join(prefixed(item) for item in sorted(items))


def canonical_value(value, strict=False, depth=0):
    """The bytes of a value in DynamoDB JSON. With strict, only its one form is accepted."""
    require(type(value) is dict and len(value) == 1, "a value must have one type")
    ((kind, content),) = value.items()
    if kind in ("S", "N", "B"):
        return kind.encode("ascii") + prefixed(canonical_element(kind, content, strict))
    if kind == "BOOL":
        require(type(content) is bool, "BOOL must be true or false")
        return b"T" if content else b"F"
    if kind == "NULL":
        require(content is True, "NULL must be true")
        return b"0"
    if kind in SETS:
        return canonical_set(kind, content, strict)
    if kind == "L":
        require(type(content) is list and depth < MAX_LEVELS, "L must be a list, within 33 levels")
        return b"L" + length(content) + b"".join(canonical_value(item, strict, depth + 1) for item in content)
    require(kind == "M", "unknown type of a value")
    require(type(content) is dict and depth < MAX_LEVELS, "M must be an object, within 33 levels")
    members = [(utf8(name), canonical_value(item, strict, depth + 1)) for name, item in content.items()]
    names = [name for name, _ in members]
    require(not strict or names == sorted(names), "the members of a map are not sorted")
    return b"M" + length(members) + b"".join(prefixed(name) + item for name, item in sorted(members))


def path_bytes(namespace, names):
    return bytes([namespace]) + b"".join(prefixed(utf8(name)) for name in names)


def commitment(salt, path, value):
    """Of the results of path_bytes and canonical_value."""
    require(len(salt) == 32, "a salt must have 32 bytes")
    return sha256(b"vzero commitment 1\0", salt, prefixed(path), value)


def merkle_root(entries):
    """The Merkle tree hash of RFC 6962."""
    stack = []
    for count, entry in enumerate(entries, 1):
        node = sha256(b"\x00", entry)
        while count % 2 == 0:
            node = sha256(b"\x01", stack.pop(), node)
            count //= 2
        stack.append(node)
    if not stack:
        return sha256()
    return functools.reduce(lambda right, left: sha256(b"\x01", left, right), reversed(stack))


def content_root(commitments):
    """The content hash of a leaf."""
    entries = sorted(commitments)
    return sha256(b"vzero content 1\0", u64(len(entries)), merkle_root(entries))


def entity_tag(key, table, entity):
    require(len(key) == 32, "the key of the entity must have 32 bytes")
    return sha256(b"vzero entity 1\0", key, prefixed(utf8(table)), prefixed(utf8(entity)))


def leaf_bytes(kind, tag, version, content):
    """`kind` is the name or the number of the type."""
    leaf = bytes([1, KINDS.get(kind, kind)]) + tag + u64(version) + content
    require(len(leaf) == 74, "a leaf must have 74 bytes")
    return leaf


def root_of_path(entry, index, size, path):
    """The root that follows from an audit path, whose length must fit index and size."""
    require(0 <= index < size, "the index is not in the tree")
    node, last = sha256(b"\x00", entry), size - 1
    for sibling in path:
        require(last > 0, "the audit path is too long")
        if index % 2 == 1 or index == last:
            node = sha256(b"\x01", sibling, node)
            while index % 2 == 0 and index != 0:
                index, last = index // 2, last // 2
        else:
            node = sha256(b"\x01", node, sibling)
        index, last = index // 2, last // 2
    require(last == 0, "the audit path is too short")
    return node


def whole_number(text):
    require(WHOLE.fullmatch(text) and int(text) < U64, "wrong whole number")
    return int(text)


def is_key_name(name):
    return name != "" and "+" not in name and not any(c.isspace() or c < " " or "\x7f" <= c <= "\x9f" for c in name)


def parse_vkey(vkey):
    """Name, key ID and public key of an Ed25519 verifier key."""
    require(type(vkey) is str, "the verifier key must be a text")
    parts = vkey.strip(" \t\n\f\r").split("+", 2)
    require(len(parts) == 3 and is_key_name(parts[0]), "wrong verifier key")
    require(re.fullmatch("[0-9a-f]{8}", parts[1]), "wrong verifier key")
    key = base64_bytes(parts[2])
    require(len(key) == 33 and key[0] == 1, "the verifier key is not of Ed25519")
    key_id = sha256(utf8(parts[0]), b"\n", key)[:4]
    require(key_id.hex() == parts[1], "the ID of the verifier key is wrong")
    return parts[0], key_id, key[1:]


def verify_signature(public, signature, message):
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise VerificationError('the package "cryptography" is missing') from None
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise VerificationError("the signature of the checkpoint is wrong") from None


def open_checkpoint(note, vkey):
    """Origin, size and root of a checkpoint that the verifier key signed."""
    name, key_id, public = parse_vkey(vkey)
    require(type(note) is str, "the checkpoint must be a text")
    require(len(utf8(note)) <= MAX_NOTE, "the checkpoint is too long")
    require(not any(c < " " and c != "\n" for c in note), "the checkpoint has control characters")
    body, blank, signatures = note.rpartition("\n\n")
    require(blank and signatures.endswith("\n"), "the checkpoint has no signature")
    text, lines = body + "\n", signatures[:-1].split("\n")
    require(len(lines) <= MAX_SIGNATURES, "the checkpoint has too many signatures")
    signed = False
    for line in lines:
        parts = line.split(" ")
        require(len(parts) == 3 and parts[0] == "\u2014" and is_key_name(parts[1]), "wrong line of a signature")
        data = base64_bytes(parts[2])
        require(len(data) > 4, "wrong line of a signature")
        if parts[1] == name and data[:4] == key_id:
            verify_signature(public, data[4:], utf8(text))
            signed = True
    require(signed, "the checkpoint is not signed by the verifier key")
    fields = body.split("\n")
    require(len(fields) >= 3 and all(fields), "the checkpoint is malformed")
    require(fields[0] == name, "the origin of the checkpoint is not the name of the verifier key")
    size, root = whole_number(fields[1]), base64_bytes(fields[2])
    require(len(root) == 32 and size < 2**63, "wrong size or root in the checkpoint")
    return name, size, root


def parse_document(text):
    """The document, if it has its one form."""
    require(type(text) is str, "the document must be a text")
    utf8(text)
    depth = 0
    for match in BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match.group(), 0)
        require(depth <= MAX_NESTING, "the document is nested too deeply")
    try:
        document = json.loads(text)  # without members that occur twice, so the text is not its one form
    except ValueError:
        raise VerificationError("the document is not JSON") from None
    compact = SPACE.sub(lambda match: match.group(1) or "", text)
    one_form = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    require(compact == one_form, "the document is not in its one form")
    return document


def check_members(value, names):
    require(type(value) is dict and list(value) == names, "an object has other members than expected")
    return value.values()


def check_list(value):
    require(type(value) is list, "a list is expected")
    return value


def disclosed_member(member, document, version):
    """Order and commitment of a shown member."""
    require(type(member) is dict and member, "a shown member must be an object")
    space = next(iter(member))
    require(space in ("Attribute", "Metadata"), "a shown member is neither attribute nor metadata")
    names, salt, value = check_members(member, [space, "Salt", "Value"])
    require(check_list(names), "a path is empty")
    data = canonical_value(value, strict=True)
    require(not value.get("M"), "a map that is not empty must be split into its members")
    namespace = 1 if space == "Metadata" else 0
    path = path_bytes(namespace, names)
    require(namespace == 0 or len(names) == 1, "metadata have one name")
    if namespace == 1 and names[0] in ("Table", "Entity", "Version"):
        expected = {"N": str(version)} if names[0] == "Version" else {"S": document[names[0]]}
        require(value == expected, "metadata are not those of the document")
    return (namespace, [utf8(name) for name in names]), commitment(hash_bytes(salt), path, data)


def verify_leaf(leaf, document, tag, size, root):
    kind, version, index, inclusion, disclosed, withheld = check_members(leaf, LEAF)
    require(type(kind) is str and kind in KINDS, "unknown kind of a leaf")
    require(type(version) is int and type(index) is int, "a whole number is expected")
    inclusion = [hash_bytes(text) for text in check_list(inclusion)]
    members = [disclosed_member(member, document, version) for member in check_list(disclosed)]
    paths = [path for path, _ in members]
    for (space1, path1), (space2, path2) in zip(paths, paths[1:]):
        require((space1, path1) < (space2, path2), "the shown members are not sorted, or one occurs twice")
        require(space1 != space2 or path2[:len(path1)] != path1, "a shown member is inside of another one")
    withheld = [hash_bytes(text) for text in check_list(withheld)]
    require(all(a < b for a, b in zip(withheld, withheld[1:])), "the withheld members are not sorted")
    commitments = [digest for _, digest in members] + withheld
    require(len(set(commitments)) == len(commitments), "a commitment occurs twice")
    entry = leaf_bytes(kind, tag, version, content_root(commitments))
    require(root_of_path(entry, index, size, inclusion) == root, "it is not in the tree of the checkpoint")
    return {"kind": kind, "version": version, "index": index, "disclosed": len(members), "withheld": len(withheld)}


def verify_document(text, vkey):
    document = parse_document(text)
    form, checkpoint, table, entity, entity_key, entries = check_members(document, DOCUMENT)
    require(form == FORMAT, "unknown format")
    log, size, root = open_checkpoint(checkpoint, vkey)
    tag = entity_tag(hash_bytes(entity_key), table, entity)
    leaves = []
    for number, leaf in enumerate(check_list(entries), 1):
        try:
            leaves.append(verify_leaf(leaf, document, tag, size, root))
        except VerificationError as error:
            raise VerificationError(f"leaf {number} of the document: {error}") from None
    require(leaves, "there is no leaf")
    require(all(a["index"] < b["index"] for a, b in zip(leaves, leaves[1:])), "the indices do not increase")
    versions = [leaf["version"] for leaf in leaves if leaf["kind"] == "Version"]
    require(len(set(versions)) == len(versions), "a version occurs twice")
    return {"log": log, "size": size, "root": root.hex(), "table": table, "entity": entity,
            "versions": versions, "leaves": leaves}


def verify(text, vkey):
    """What is proven. Raises VerificationError if the proof does not hold."""
    try:
        return verify_document(text, vkey)
    except VerificationError:
        raise
    except Exception as error:  # a defect must never look like a proof
        raise VerificationError(f"unexpected {type(error).__name__}") from None


def read(path):
    """Text of a file, with its line ends as they are."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8")
    except (OSError, ValueError):
        raise VerificationError("a file cannot be read, or is not UTF-8") from None


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="verify.py", usage="verify.py proof.json --vkey FILE",
                                     add_help=False, allow_abbrev=False)
    parser.add_argument("proof")
    parser.add_argument("--vkey", required=True)
    options = parser.parse_args(arguments)
    try:
        result = verify(read(options.proof), read(options.vkey))
        name = result["log"].encode("ascii", "backslashreplace").decode("ascii")
        print(f"log: {name}, checkpoint of size {result['size']}")
        print(f"table: {json.dumps(result['table'])}, entity: {json.dumps(result['entity'])}")
        for leaf in result["leaves"]:
            print(f"{leaf['kind']} {leaf['version']} at index {leaf['index']}: "
                  f"{leaf['disclosed']} members shown, {leaf['withheld']} withheld")
        sys.stdout.flush()
        return 0
    except Exception as error:
        reason = error if isinstance(error, VerificationError) else f"unexpected {type(error).__name__}"
        print(f"verification failed: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

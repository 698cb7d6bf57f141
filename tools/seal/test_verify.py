#!/usr/bin/env python3
"""Compares verify.py with the test vectors and with `vzero verify`, on the example and on changes of it.

Usage: test_verify.py FOLDER, the folder of the program vzero. Takes about 10 s.
"""
import base64
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import verify

HERE = pathlib.Path(__file__).parent
PARTS = ['"', "\\", "{", "}", "[", "]", ",", ":", "0", "-", " ", "\n", "e", "1.0", "\u00e9", "\\u0041", '"S":"x",', '"Kind":"Erase",', "null", "[[["]


SIGNER = Ed25519PrivateKey.from_private_bytes(bytes([3]) * 32)  # of the example
VKEY = (HERE / "example/vkey").read_text()
LOG, KEY_ID, _ = verify.parse_vkey(VKEY)
PLAIN = {"S": "x"}


def line(signature, name=LOG, key_id=KEY_ID):
    return f"\u2014 {name} {base64.b64encode(key_id + signature).decode()}\n"


def member(value=None, names=("a",), space="Attribute", committed=None, salt="01" * 32):
    """A shown member, and its commitment to this value or to other bytes."""
    shown = {space: list(names), "Salt": salt, "Value": value or PLAIN}
    path = verify.path_bytes(int(space == "Metadata"), names)
    committed = committed or verify.canonical_value(value or PLAIN)
    return shown, verify.commitment(bytes.fromhex(salt), path, committed)


def leaf(members=None, kind="Version", version=1, index=0, inclusion=0, withheld=()):
    members = [member()] if members is None else members
    return {"Kind": kind, "Version": version, "Index": index, "Inclusion": ["02" * 32] * inclusion,
            "Disclosed": [shown for shown, _ in members], "Withheld": list(withheld)}, [digest for _, digest in members]


def entry_of(leaf, digests, entity="E"):
    content = verify.content_root(digests + [bytes.fromhex(digest) for digest in leaf["Withheld"]])
    return verify.leaf_bytes(leaf["Kind"], verify.entity_tag(bytes(32), "T", entity), leaf["Version"], content)


def tree(one, other):
    """Two leaves of one tree."""
    for index, (leaf, sibling) in enumerate([(one, other), (other, one)]):
        leaf[0].update(Index=index, Inclusion=[verify.sha256(b"\0", entry_of(*sibling)).hex()])
    return one, other


def proof(*leaves, size=1, more="", text="{}\n{}\n{}\n", lines="{}", entity="E", key_id=KEY_ID, path=None):
    """A document in its one form, whose checkpoint is the one of its last leaf. With `path`, its root has another size and path than the leaf."""
    root = bytes(32)
    for leaf, digests in leaves[-1:]:
        index, inclusion = path or (leaf["Index"], leaf["Inclusion"])
        parts = [bytes.fromhex(digest) for digest in inclusion]
        root = verify.root_of_path(entry_of(leaf, digests, entity), index, 2 ** len(parts) if path else size, parts)
    shown = [leaf for leaf, _ in leaves]
    signed = text.format(LOG, size, base64.b64encode(root).decode()) + more
    checkpoint = signed + "\n" + lines.format(line(SIGNER.sign(signed.encode()), key_id=key_id))
    document = [("Format", verify.FORMAT), ("Checkpoint", checkpoint), ("Table", "T"), ("Entity", entity),
                ("EntityKey", "00" * 32), ("Leaves", shown)]
    return json.dumps(dict(document), ensure_ascii=False, separators=(",", ":"))


def value(shown, committed=None):
    return proof(leaf([member(shown, committed=committed)]))


def deep(levels, inner=PLAIN):
    return inner if levels == 0 else {"L": [deep(levels - 1, inner)]}


def raw(tag, *parts):
    """Bytes of a value, or of a set of values."""
    count = b"" if tag in (b"N", b"S", b"B") else verify.length(parts)
    return tag + count + b"".join(verify.prefixed(part) for part in parts)


def cases():
    """Documents with a right signature, and `True` if they hold; the verifier key is another one in some."""
    good, two, other_id = proof(leaf()), leaf([member(), member(names=("b",))]), bytes(4)
    key_2 = b"\2" + SIGNER.public_key().public_bytes_raw()
    id_2 = verify.sha256(f"{LOG}\n".encode(), key_2)[:4]
    pair = [member(names=("a",)), member(names=("a", "b"))]
    metadata = lambda name, content, **more: leaf([member(content, (name,), "Metadata")], **more)
    for text in [good, json.dumps(json.loads(good), indent=1, ensure_ascii=False), value({"S": "\x7f\u2028 \U0001f600"}),
                 value({"N": "1" + "0" * 125}), value({"M": {}}), value(deep(33)), value({"L": [{"M": {"\uff5e": PLAIN, "\U0001f600": PLAIN}}]}),
                 proof(leaf(kind="Prune")), proof(leaf(version=2**64 - 1)), proof(leaf(inclusion=63), size=2**63 - 1), proof(leaf(members=[])),
                 proof(leaf(), more="x\n"), proof(leaf(), lines=line(b"x", "other") * 99 + "{}"), proof(two), proof(leaf(), entity="a\x1b\n"),
                 proof(metadata("Version", {"N": "7"}, version=7)), proof(metadata("Table", {"S": "T"})), proof(metadata("Entity", {"S": "E"})),
                 proof(leaf([member(names=("Actor",)), member(names=("Actor",), space="Metadata")])), value({"NS": ["0.5", "1"]}),
                 proof(leaf(), lines=line(b"x", key_id=other_id) + "{}"), proof(*tree(leaf(), leaf(kind="Erase")), size=2)]:
        yield text, VKEY, True
    for vkey, holds in [(f" {VKEY.strip()}\r\n", True), (VKEY + "\xa0", False), (VKEY.replace("/log", "/lag"), False), ("", False),
                        (VKEY.replace("+", "\x85+", 1), False), (VKEY.replace("+A", "+B"), False), (VKEY.strip() + "=", False)]:
        yield good, vkey, holds
    yield good, VKEY.replace(KEY_ID.hex(), "00000000"), False
    yield proof(leaf(), key_id=id_2), f"{LOG}+{id_2.hex()}+{base64.b64encode(key_2).decode()}", False
    # Values.
    for shown, committed in [({"NULL": False}, b"0"), ({"L": [{"NULL": False}]}, b"L\0\0\0\1" + b"0"), ({"NS": ["9", "10"]}, None),
                             ({"SS": ["b", "a"]}, None), ({"BS": ["Yg==", "YQ=="]}, None), ({"M": {"x": PLAIN}}, None),
                             (deep(34), b"L\0\0\0\1" * 34 + raw(b"S", b"x")),
                             (deep(33, {"M": {}}), b"L\0\0\0\1" * 33 + raw(b"M")),
                             ({"L": [{"M": {"\U0001f600": PLAIN, "\uff5e": PLAIN}}]}, None), ({"SS": ["a", "a"]}, raw(b"s", b"a", b"a")), ({"SS": []}, raw(b"s")),
                             ({"NS": ["1", "1.0"]}, raw(b"n", b"1e0", b"1e0")), ({"BS": ["YQ==", "YQ=="]}, raw(b"b", b"a", b"a")),
                             ({"BOOL": 1}, b"T"), ({"X": 1}, b"X"), ({"S": "x", "N": "1"}, raw(b"N", b"1e0")), ({"N": 1}, raw(b"N", b"1e0")),
                             *[({"N": text}, raw(b"N", b"1e0")) for text in ["1.0", "+1", "01", "1e0", "1.", " 1", "\u0661", "10e-1", "1E0"]],
                             *[({"N": text}, raw(b"N", b"e0")) for text in ["-0", "", ".0", "0.0", "00"]], ({"N": ".5"}, raw(b"N", b"5e-1")),
                             ({"N": "1" * 39}, raw(b"N", b"1" * 39 + b"e38")), ({"N": "1" + "0" * 126}, raw(b"N", b"1e126")),
                             ({"N": "0." + "0" * 130 + "1"}, raw(b"N", b"1e-131")), *[({"B": text}, raw(b"B", b"a")) for text in ["YQ", "YQ=", "YR==", "YQ==\n", " YQ==", "YQ==="]],
                             ({"B": "-_8="}, verify.canonical_value({"B": "+/8="}))]:
        yield value(shown, committed), VKEY, False
    # Numbers, texts and members of JSON.
    for old, new in [('"Version":1', '"Version":' + text) for text in ["1E0", "01", "+1", "1.0", "1e0", "-1", "true", '"1"', str(2**64), "9" * 5000]] + [
            ('"Version":1', '"Version":1,"Version":1'), ('"Version":1', '"Version":2,"Version":1'), ('"S":"x"', '"S":"y","S":"x"'),
            ('"S":"x"', '"S":"\\u0078"'), ('"S":"x"', '"S":"\\ud800"'), ('"x"', '["x"]'), ('"Withheld":[]', '"Withheld":null'),
            ('"Index":0', '"Index":-0'), ('"Salt"', '"Salz"'), ('"Withheld"', '"Held"'), ('"Inclusion":[]', '"Inclusion":""'), ('"Withheld":[]', '"Withheld":{}'), (',"Withheld":[]', ""), ('"Withheld":[]', '"Withheld":[],"More":1'), ("[]", "[" * 200 + "]" * 200),
            ("[]", "[" * 100_000), ('"01', '"0A'), ("proof-1", "proof-2"), ('"EntityKey":"0', '"EntityKey":"'), ("{", "\ufeff{"), ("}", "}x"),
            ('{"Attribute":["a"]', '{"Attribute":["a"],"Metadata":["a"]'), ('"Attribute":["a"],', ""), ('"Attribute"', '"attribute"'),
            ('["a"],"Salt":"' + "01" * 32 + '"', '["a"]'), ('"Version",', '"version",'), ('"Kind":"Version","Version":1', '"Version":1,"Kind":"Version"'),
            ('"S":"x"', '"S":"y"'), ('"T"', '"U"'), ('"E"', '"F"'), ('"Version",', '"Erase",')]:
        yield good.replace(old, new, 1), VKEY, False
    # Members and leaves.
    twice, digest = member(), member()[1].hex()
    for text in [proof(leaf(pair)), proof(leaf([member(names=("b",)), member()])), proof(leaf([member(), member(salt="02" * 32)])),
                 proof(leaf([twice, twice])), proof(leaf([member(names=())])), proof(leaf([member(names=("a", "b"), space="Metadata")])),
                 proof(leaf([member(names=("b",), space="Metadata"), member()])), proof(metadata("Table", {"S": "U"})), proof(metadata("Entity", {"S": "F"})),
                 proof(metadata("Version", {"N": "2"})), proof(metadata("Version", {"S": "1"})), proof(leaf(withheld=["02" * 32, "01" * 32])),
                 proof(leaf(withheld=["01" * 32] * 2)), proof(leaf(withheld=[digest])), proof(), proof(leaf(index=1), path=(0, [])), proof(leaf(), size=0, path=(0, [])),
                 proof(leaf(), size=2, path=(0, [])), proof(leaf(inclusion=1), path=(1, ["02" * 32])), proof(leaf(inclusion=1), path=(0, ["02" * 32])),
                 proof(*tree(leaf(version=2), leaf())[::-1], size=2), proof(*tree(leaf(), leaf()), size=2),
                 proof(leaf(kind="Erase"), leaf(kind="Erase")), proof(leaf(inclusion=63), size=2**63),
                 proof(leaf([member(salt="ab" * 32)])).replace("abab", "ABAB"), proof(leaf([member(salt="ab" * 32)])).replace("abab", "ab ab")]:
        yield text, VKEY, False
    # Checkpoints.
    for more in ["\n", "x\n\ny\n", "\r\n", "\t\n", "x"]:
        yield proof(leaf(), more=more), VKEY, False
    for text in ["{}\n0{}\n{}\n", "{}\n+{}\n{}\n", "{}\n{} \n{}\n", "{}x\n{}\n{}\n", "\n{}\n{}\n{}\n", "{}\n{}\n{}=\n", "{}\n\n{}\n{}\n", "{}\n{}\n"]:
        yield proof(leaf(), text=text), VKEY, False
    for lines in [line(b"x", name) + "{}" for name in ["", "a+b", "a\xa0b", "a\x85b", "a\x7fb", "a b", "a\u2003b"]] + [
            line(b"", "other") + "{}", line(b"x", "other").replace("\n", " x\n") + "{}", line(b"x" * 64) + "{}", line(b"x" * 64), line(b"x", "other"), line(b"x", "other") * 100 + "{}", "{}\n", "{}x\n",
            line(b"x", "other").replace("=", "") + "{}", line(b"x" * 2**20, "other") + "{}", "- other AAAAAAA=\n{}", ""]:
        yield proof(leaf(), lines=lines), VKEY, False


def check_cases(verifiers):
    for number, (text, vkey, holds) in enumerate(cases()):
        for accepted in verifiers:
            assert accepted(text, vkey) == holds, f"case {number}: {accepted.__name__} does not return {holds} for {text[:600]}"
    return number + 1


def check_vectors():
    vectors = json.loads((HERE / "vectors.json").read_text())
    for vector in vectors["Values"]:
        value = vector["Value"]
        if value == {"N": "1e125"}:
            value = {"N": "1" + "0" * 125}
        assert verify.canonical_value(value).hex() == vector["Bytes"], value
    path = verify.path_bytes(0, vectors["Path"])
    digest = verify.commitment(bytes.fromhex(vectors["Salt"]), path, verify.canonical_value({"S": "H1"}))
    content = verify.content_root([digest, b"\1" * 32, b"\xff" * 32])
    tag = verify.entity_tag(bytes.fromhex(vectors["Key"]), vectors["Table"], vectors["Entity"])
    leaf = verify.leaf_bytes("Version", tag, vectors["Version"], content)
    computed = {"PathBytes": path, "Commitment": digest, "Content": content, "Tag": tag, "Leaf": leaf}
    for name, value in computed.items():
        assert value.hex() == vectors[name], name


def changes(text, generator):
    """Texts that differ from a proof in one place."""
    compact = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    while True:
        place, end = sorted(generator.randrange(len(compact)) for _ in range(2))
        match generator.randrange(4):
            case 0:
                yield compact[:place] + chr(generator.randrange(0x20, 0x7F)) + compact[place + 1:]
            case 1:
                yield compact[:place] + generator.choice(PARTS) + compact[place:]
            case 2:
                yield compact[:place] + compact[min(end, place + 80):]
            case 3:
                yield compact[:place] + compact[place:min(end, place + 80)] * 2 + compact[min(end, place + 80):]


def accepts(text, vkey):
    try:
        return bool(verify.verify(text, vkey))
    except verify.VerificationError:
        return False


def compact(text):
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return None


def main(programs):
    check_vectors()
    text, vkey = (HERE / "example/proof.json").read_text(), VKEY
    assert accepts(text, vkey), "the example"
    seed = random.randrange(2**32)
    generator = random.Random(seed)
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        file, key = pathlib.Path(folder, "proof.json"), pathlib.Path(folder, "vkey")

        def vzero(changed, vkey):
            file.write_text(changed, newline="")
            key.write_text(vkey, newline="")
            code = subprocess.run([f"{programs}/vzero", "verify", file, "--vkey", key], capture_output=True).returncode
            assert code in (0, 1, 2), f"vzero ends with {code}"
            return code == 0

        file.write_bytes(text.encode() + b"\xff")
        key.write_text(vkey)
        codes = [verify.main([str(file), "--vkey", str(key)]),
                 subprocess.run([f"{programs}/vzero", "verify", file, "--vkey", key], capture_output=True).returncode]
        assert codes == [1, 1], "a proof that is not UTF-8"
        count = check_cases([accepts, vzero])
        for number, changed in zip(range(10_000), changes(text, generator)):
            is_same = compact(changed) == compact(text) and "\\u" not in changed
            accepted = accepts(changed, vkey)
            assert not accepted or is_same, f"seed {seed}, change {number} is accepted: {changed}"
            if number % 50 == 0:
                assert vzero(changed, vkey) == accepted, f"seed {seed}, change {number}: vzero does not agree"
                compared += 1
    print(f"{count} documents with a right signature, 10,000 changes of a proof refused by verify.py, {compared} of them compared with vzero verify")


if __name__ == "__main__":
    main(sys.argv[1])

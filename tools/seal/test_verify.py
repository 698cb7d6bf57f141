#!/usr/bin/env python3
"""Compares verify.py with the test vectors and with `vzero verify`, on the example and on changes of it.

Usage: test_verify.py FOLDER, the folder of the program vzero. Takes about 10 s.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import verify

HERE = pathlib.Path(__file__).parent
PARTS = ['"', "\\", "{", "}", "[", "]", ",", ":", "0", "-", " ", "\n", "e", "1.0", "\u00e9", "\\u0041", '"S":"x",', '"Kind":"Erase",', "null", "[[["]


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
    text, vkey = (HERE / "example/proof.json").read_text(), (HERE / "example/vkey").read_text()
    assert accepts(text, vkey), "the example"
    seed = random.randrange(2**32)
    generator = random.Random(seed)
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "proof.json")
        for number, changed in zip(range(10_000), changes(text, generator)):
            is_same = compact(changed) == compact(text) and "\\u" not in changed
            accepted = accepts(changed, vkey)
            assert not accepted or is_same, f"seed {seed}, change {number} is accepted: {changed}"
            if number % 50 == 0:
                file.write_text(changed)
                command = [f"{programs}/vzero", "verify", file, "--vkey", HERE / "example/vkey"]
                code = subprocess.run(command, capture_output=True).returncode
                assert code == (0 if accepted else 1), f"seed {seed}, change {number}: vzero ends with {code}"
                compared += 1
    print(f"10,000 changes of a proof refused by verify.py, {compared} of them compared with vzero verify")


if __name__ == "__main__":
    main(sys.argv[1])

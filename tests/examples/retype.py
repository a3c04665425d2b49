# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/tiny_llada/make/retype.py: the same numbers in f32, and in q8_0 as near as its blocks allow.

usage: retype.py [test name]...
"""
import os
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "examples/tiny_llada/make/retype.py")
MODEL = os.path.join(ROOT, "examples/tiny_llada/tiny-f16.gguf")
sys.path.insert(0, os.path.dirname(SCRIPT))
import retype  # noqa: E402


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def tensors(data):
    """{name: (shape, type, bytes from its first on)} of a file, and its bytes before the tensors' records."""
    r = retype.Reader(data)
    r.at = 8
    count, entries = r.take("Q"), r.take("Q")
    for _ in range(entries):
        r.string()
        r.skip(r.take("I"))
    begin = r.at
    found = {}
    for _ in range(count):
        name = r.string()
        shape = [r.take("Q") for _ in range(r.take("I"))]
        found[name] = shape, r.take("I"), r.take("Q")
    start = -(-r.at // retype.ALIGNMENT) * retype.ALIGNMENT
    return {name: (shape, kind, data[start + offset:]) for name, (shape, kind, offset) in found.items()}, data[:begin]


def numbers(shape, kind, data):
    count = 1
    for extent in shape:
        count *= extent
    if kind == retype.Q8_0:
        found = []
        for block in range(count // 32):
            scale, *parts = struct.unpack_from("<e32b", data, block * 34)
            found += [scale * part for part in parts]
        return found
    return list(struct.unpack_from(f"<{count}{'f' if kind == retype.F32 else 'e'}", data))


class Retype(unittest.TestCase):
    def setUp(self):
        with open(MODEL, "rb") as file:
            self.data = file.read()
        self.before, self.head = tensors(self.data)

    def converted(self, kind):
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "model.gguf")
            done = run(kind, MODEL, target)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            with open(target, "rb") as file:
                data = file.read()
        self.assertEqual(len(data) % retype.ALIGNMENT, 0)
        after, head = tensors(data)
        self.assertEqual(list(after), list(self.before))
        self.assertEqual(sum(a != b for a, b in zip(head, self.head)), 1)  # general.file_type
        return after

    def test_f32_has_the_same_numbers(self):
        for name, (shape, kind, data) in self.converted("f32").items():
            self.assertEqual(kind, retype.F32)
            self.assertEqual(numbers(shape, kind, data), numbers(*self.before[name]), name)

    def test_q8_0_is_as_near_as_its_blocks_allow(self):
        retyped = 0
        for name, (shape, kind, data) in self.converted("q8_0").items():
            old = numbers(*self.before[name])
            new = numbers(shape, kind, data)
            if kind == retype.F32:
                self.assertEqual(new, old, name)
                continue
            retyped += 1
            for first in range(0, len(old), 32):
                largest = max(map(abs, old[first:first + 32]))
                bound = largest / 127 * 0.5 + largest * 2**-10  # half a step, and the rounding of the scale
                for a, b in zip(old[first:first + 32], new[first:first + 32]):
                    self.assertLessEqual(abs(a - b), bound, name)
        self.assertGreater(retyped, 30)

    def test_other_files_and_types_are_refused(self):
        self.assertEqual(run("f64", MODEL, "/dev/null").returncode, 2)
        with self.assertRaisesRegex(ValueError, "not a GGUF file of version 3"):
            retype.retyped(b"GGUX" + self.data[4:], "f32")
        with self.assertRaisesRegex(ValueError, "must be f16 or f32"):
            retype.retyped(retype.retyped(self.data, "q8_0"), "f32")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a GGUF file whose f16 matrices have another type: retype.py f32|q8_0 FROM.gguf TO.gguf

Names, shapes and metadata stay as they are, but for `general.file_type`. f32 has the same numbers; q8_0 has blocks of
32 with a scale in f16, the largest over 127. Needs Python only.
"""
import struct
import sys

F32, F16, Q8_0 = 0, 1, 8
FILE_TYPES = {"f32": 0, "q8_0": 7}
FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a metadata value by its type
STRING, ARRAY = 8, 9
ALIGNMENT = 32


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0]

    def string(self):
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            of, count = self.take("I"), self.take("Q")
            for _ in range(count):
                self.skip(of)
        else:
            self.at += FIXED[kind]


def nearest(x):
    """x rounded to a whole number, halves away from zero."""
    return int(x + 0.5) if x >= 0 else -int(0.5 - x)


def q8_0(numbers):
    blocks = bytearray()
    for first in range(0, len(numbers), 32):
        block = numbers[first:first + 32]
        largest = max(map(abs, block))
        blocks += struct.pack("<e", largest / 127)
        blocks += struct.pack("<32b", *(nearest(x * 127 / largest) if largest else 0 for x in block))
    return bytes(blocks)


def retyped(data, kind):
    """The file `data` with its f16 matrices in `kind`."""
    r = Reader(data)
    magic, version = r.take("4s"), r.take("I")
    if magic != b"GGUF" or version != 3:
        raise ValueError("not a GGUF file of version 3")
    tensors, entries = r.take("Q"), r.take("Q")
    head = bytearray(data)
    for _ in range(entries):
        key, of = r.string(), r.take("I")
        if key == b"general.file_type":
            struct.pack_into("<I", head, r.at, FILE_TYPES[kind])
        r.skip(of)
    found = []
    for _ in range(tensors):
        r.string()
        elements = 1
        for _ in range(r.take("I")):
            elements *= r.take("Q")
        found.append((r.at, r.take("I"), r.take("Q"), elements))
    begin = -(-r.at // ALIGNMENT) * ALIGNMENT
    body = bytearray()
    for at, of, offset, elements in sorted(found, key=lambda t: t[2]):
        body += bytes(-len(body) % ALIGNMENT)
        struct.pack_into("<IQ", head, at, of, len(body))
        if of == F32:
            body += data[begin + offset:begin + offset + 4 * elements]
            continue
        if of != F16:
            raise ValueError(f"a tensor of type {of}, must be f16 or f32")
        numbers = struct.unpack_from(f"<{elements}e", data, begin + offset)
        struct.pack_into("<I", head, at, F32 if kind == "f32" else Q8_0)
        body += struct.pack(f"<{elements}f", *numbers) if kind == "f32" else q8_0(numbers)
    return bytes(head[:begin]) + bytes(body) + bytes(-len(body) % ALIGNMENT)


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in FILE_TYPES:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    kind, source, target = arguments
    with open(source, "rb") as file:
        data = file.read()
    with open(target, "wb") as file:
        file.write(retyped(data, kind))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

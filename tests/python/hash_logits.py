# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The logits of the golden traces, from the formulas of tests/data/goldens/README.md."""
import numpy as np

WORD = 2**64 - 1


def mix(z):
    z = (np.asarray(z, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def noise(seed, s, i, v):
    z = np.uint64((seed ^ (s << 40) ^ (i << 20)) & WORD) ^ np.asarray(v, dtype=np.uint64)
    return (mix(z) >> np.uint64(44)).astype(np.int64) - 2**19


def aux(seed, tag, i, s=0):
    z = (seed + tag * 0xD1342543DE82EF95) & WORD
    with np.errstate(over="ignore"):
        return int(mix(np.uint64(z ^ (s << 40) ^ (i << 20) ^ 0xFFFFF)))


class FakeModel:
    """`model` of a line; rows() gives float32 logits for positions of a sequence."""

    def __init__(self, line):
        self.m = line

    def row(self, tokens, i):
        m = self.m
        near = range(max(0, i - m["radius"]), min(len(tokens), i + m["radius"] + 1))
        c = sum(1 for j in near if j != i and tokens[j] != m["mask_id"])
        for a, b in m["dup"]:
            i = a if b == i else i
        seed, v_eff = m["seed"], m["v_eff"]
        pref = aux(seed, 1, i) % v_eff
        rival = (pref + 1 + aux(seed, 2, i) % (v_eff - 1)) % v_eff
        if 0 <= m["eos_from"] <= i:
            pref = m["eos_id"]
        for at, until in m["mask_pref"]:
            pref = m["mask_id"] if at == i and c < until else pref
        best = m["a_lo"] + aux(seed, 3, i) % m["a_rng"] + m["slope"] * c + aux(seed, 5, i, c) % m["j_rng"]
        second = m["r_lo"] + aux(seed, 4, i) % m["r_rng"]
        with np.errstate(over="ignore"):
            t = noise(seed, c, i, np.arange(m["V"]))
        if pref < m["V"]:
            t[pref] += best << 14
        if rival < m["V"]:
            t[rival] += second << 14
        return t.astype(np.float32) * np.float32(2.0**-18)

    def rows(self, tokens, positions, first, last):
        """Rows [first, last); those that are not among `positions` must not be read: they are NaN."""
        out = np.full((last - first, self.m["V"]), np.nan, dtype=np.float32)
        for p in positions:
            out[p - first] = self.row(tokens, p)
        return out


def logits_sum(rows, first, positions):
    """The guard that a step records, of rows() with row `first` at the front."""
    total = 0
    for p in positions:
        bits = rows[p - first].view(np.uint32).astype(np.uint64)
        odd = 2 * np.arange(len(bits), dtype=np.uint64) + np.uint64(1)
        total = (total + (2 * p + 1) * int((bits * odd).sum(dtype=np.uint64))) & WORD
    return f"{total:016x}"

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The formulas of examples/bindings/python/docs/rollout.md, in NumPy or in PyTorch: no function of the library is called.

A namespace `xp` is numpy or torch; numbers are float32 arrays of it, unless a name says otherwise.
"""
import numpy as np


# [arithmetic]
LOG2_E, LN_2, MAGIC = float.fromhex("0x1.715476p+0"), float.fromhex("0x1.62e430p-1"), 12582912.0
EXP2 = [float.fromhex(c) for c in (
    "0x1.5bba14p-10", "0x1.3cea88p-7", "0x1.c6b752p-5", "0x1.ebf9bcp-3", "0x1.62e42ap-1", "0x1p+0")]


def array(xp, x):
    return xp.asarray(x, dtype=xp.float32)


def fma(xp, a, b, c):
    """a b + c, rounded once: the product is exact in float64, and the sum is rounded to odd before float32."""
    a, b, c = (xp.asarray(x, dtype=xp.float64) for x in (a, b, c))
    product = a * b
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    bits = total.view(xp.int64)
    step = xp.where((lost > 0) == (total > 0), 1, -1)
    odd = xp.where(xp.isfinite(total) & (lost != 0) & (bits % 2 == 0), bits + step, bits)
    return array(xp, odd.view(xp.float64))


def exp2(xp, t):
    magic = t + array(xp, MAGIC)
    f = t - (magic - array(xp, MAGIC))
    p = array(xp, EXP2[0])
    for c in EXP2[1:]:
        p = fma(xp, p, f, c)
    whole = magic.view(xp.int32) - array(xp, MAGIC).view(xp.int32)  # t as an integer
    return (p.view(xp.int32) + whole * 2**23).view(xp.float32)


def exp(xp, x):  # of x <= 0
    d = xp.maximum(x, array(xp, -86.0))
    magic = fma(xp, d, LOG2_E, MAGIC)
    f = fma(xp, d, LOG2_E, -(magic - array(xp, MAGIC)))
    p = array(xp, EXP2[0])
    for c in EXP2[1:]:
        p = fma(xp, p, f, c)
    whole = magic.view(xp.int32) - array(xp, MAGIC).view(xp.int32)
    return (p.view(xp.int32) + whole * 2**23).view(xp.float32)


def log(xp, x):
    bits = x.view(xp.int32)
    e = (bits - 0x3F3504F3) // 2**23
    m = (bits - e * 2**23).view(xp.float32)
    r = (m - array(xp, 1)) / (m + array(xp, 1))
    r2, twice = r * r, r + r
    p = fma(xp, fma(xp, r2, np.float32(0.14791029), np.float32(0.19994360)), r2, np.float32(0.33333343))
    return fma(xp, e, LN_2, fma(xp, twice, p * r2, twice))


def log1p(xp, x):  # of x >= 0
    one = array(xp, 1)
    u = one + x
    lost = xp.where(x > one, one - (u - x), x - (u - one))
    return log(xp, u) + lost / u
# [/arithmetic]


# [row]
def row_sums(xp, z):
    """(best, rest) of a row: its largest logit, and the sum of e^(z - best) over the other columns."""
    nodes = [chunk_sums(xp, z[i : i + 2048]) for i in range(0, len(z), 2048)]
    while len(nodes) > 1:  # neighbours are merged; one without a neighbour moves up
        pairs = [merge(xp, *nodes[i : i + 2]) for i in range(0, len(nodes) - 1, 2)]
        nodes = pairs + nodes[len(pairs) * 2 :]
    return nodes[0]


def chunk_sums(xp, z):
    best, opening = z.max(), z[:64].max()
    if not best > -xp.inf:
        return best, array(xp, 0)
    shift, exponent = array(xp, 0), fma(xp, opening, LOG2_E, MAGIC) - array(xp, MAGIC)
    if not abs(opening) < 2**20 or fma(xp, best, LOG2_E, -exponent) > 12:
        shift, exponent = best, array(xp, 0)

    def power(z):  # of two, at least 2^-124
        return xp.maximum(fma(xp, z - shift, LOG2_E, -exponent), array(xp, -124.0))

    lanes = xp.full(((len(z) + 63) // 64 * 64,), -xp.inf, dtype=xp.float32)  # -inf weighs 2^-124
    lanes[: len(z)] = z
    weights = exp2(xp, power(lanes)).reshape(-1, 64)
    total = weights[0]
    for lane in weights[1:]:
        total = total + lane
    while len(total) > 1:
        total = total[: len(total) // 2] + total[len(total) // 2 :]
    own = exp2(xp, power(best))
    return best, (total[0] - own) / own


def merge(xp, a, b):
    (best, rest), (low, less) = (a, b) if a[0] >= b[0] else (b, a)
    if not low > -xp.inf:
        return best, rest + less
    scale = exp(xp, xp.maximum(low - best, array(xp, -86.0)))
    return best, fma(xp, scale, less + array(xp, 1), rest)


def log_probability(xp, z, token):
    best, rest = row_sums(xp, z)
    return (z[token] - best) - log1p(xp, rest)


def kept(xp, z, top_k=None, top_p=1.0, min_p=0.0):
    """The kept tokens, most probable first, and their mass in units of 2^-38 of the best one's."""
    best, rest = row_sums(xp, z)
    limit = array(xp, top_p) * (array(xp, 1) + rest)
    depth = log(xp, array(xp, min_p)) if min_p > 1e-37 else -xp.inf
    weights, values = exp(xp, z - best).tolist(), z.tolist()
    tokens, mass = [], 0
    for token in sorted(range(len(values)), key=lambda i: (-values[i], i)):
        if tokens and (len(tokens) == top_k or (top_p < 1 and mass > int(float(limit) * 2**38)) or z[token] - best < depth
                       or values[token] == -xp.inf):
            break
        mass += int(weights[token] * 2**38)
        tokens.append(token)
    return tokens, mass


def log_kept_mass(xp, z, **rules):
    share = array(xp, kept(xp, z, **rules)[1] * 2.0**-38) / (array(xp, 1) + row_sums(xp, z)[1])
    return log(xp, xp.minimum(share, array(xp, 1)))
# [/row]


# [draw]
def random_bits(seed, counter, token):
    """32 bits of Philox-4x32-10 with the key `seed` and the counter (token, position, step, sequence)."""
    step, position, sequence = counter
    c, key = [token % 2**32, position, step, sequence], [seed % 2**32, seed >> 32]
    for _ in range(10):
        even, odd = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(odd >> 32) ^ c[1] ^ key[0], odd % 2**32, (even >> 32) ^ c[3] ^ key[1], even % 2**32]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return c[0]


def draw_of_kept(z, tokens, temperature, seed, counter):
    """The token drawn among those that a truncation keeps: each has a separate Gumbel number."""
    xp, inverse, best = np, np.float32(1) / np.float32(temperature), z.max()
    keys = []
    for token in tokens:
        bits = random_bits(seed, counter, token | 0x80000000)
        x = fma(xp, np.float32(~np.uint32(bits) if bits >= 2**31 else bits), 2.0**-32, 2.0**-33)
        exponential = log1p(xp, x / (np.float32(1) - x)) if bits >= 2**31 else -log(xp, x)
        keys.append(fma(xp, z[token] - best, inverse, np.float32(0)) - log(xp, exponential))
    return max(zip(keys, (-t for t in tokens)))[1] * -1


def draw_of_row(z, temperature, seed, counter):
    """The token drawn from a whole row: the chunk with the largest key, a run of 64 columns of it, one of them."""
    xp, inverse = np, np.float32(1) / np.float32(temperature)

    def uniform(token):
        return fma(xp, np.float32(random_bits(seed, counter, token) >> 9), 2.0**-23, 2.0**-24)

    def weights(z, best):
        return np.where(z > -np.inf, exp(xp, (z - best) * inverse), np.float32(0))

    def total(w):
        lanes = np.zeros(64, np.float32)
        for i in range(0, len(w), 64):
            lanes[: len(w[i : i + 64])] += w[i : i + 64]
        while len(lanes) > 1:
            lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
        return lanes[0]

    def walk(weights, target):
        passed, index = np.float32(0), 0
        for i, weight in enumerate(weights):
            if passed > target:
                break
            index, passed = i if weight > 0 else index, passed + weight
        return index

    keys = []
    for first in range(0, len(z), 2048):
        best, rest = chunk_sums(xp, z[first : first + 2048])
        if best > -np.inf:
            weight = np.float32(1) + rest if temperature == 1 else total(weights(z[first : first + 2048], best))
            gumbel = -log(xp, -log(xp, uniform(first)))
            keys.append((fma(xp, best, inverse, log(xp, weight)) + gumbel, -first, best))
    _, first, best = max(keys)
    first, chunk = -first, z[-first : -first + 2048]
    w = weights(chunk, best)
    runs = [total(w[i : i + 64]) for i in range(0, len(w), 64)]
    whole = np.float32(0)
    for run in runs:
        whole += run
    run = walk(runs, uniform(first + 1) * whole)
    return first + run * 64 + walk(w[run * 64 : run * 64 + 64], uniform(first + 2) * runs[run])
# [/draw]

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts of drawn tokens beside the probabilities that they should have, and what samplers make of a row."""
import math

import numpy as np


def probability_of_a_fit(counts, probabilities):
    """The probability of a chi-square at least as large (Wilson and Hilferty, 1931); 0 if an impossible token was drawn."""
    counts, probabilities = np.asarray(counts, np.float64), np.asarray(probabilities, np.float64)
    if counts[probabilities == 0].any():
        return 0.0
    expected = counts.sum() * probabilities / probabilities.sum()
    often = expected >= 5
    expected = np.append(expected[often], expected[~often].sum())
    seen = np.append(counts[often], counts[~often].sum())
    there = expected > 0
    freedom = there.sum() - 1
    if freedom == 0:
        return 1.0
    statistic = ((seen - expected)[there] ** 2 / expected[there]).sum()
    deviation = ((statistic / freedom) ** (1 / 3) - 1 + 2 / (9 * freedom)) / math.sqrt(2 / (9 * freedom))
    return math.erfc(deviation / math.sqrt(2)) / 2


def softmax(row):
    p = np.exp(row - row.max())
    return p / p.sum()


def sampled(logits, *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, presence_penalty=0.0,
            frequency_penalty=0.0, logit_bias={}, prompt=(), answer=(), top_p_of_the_kept=False):
    """The probabilities of a sampler that edits, divides by the temperature, and then truncates.

    As in SGLang 0.5.23, penalties count over prompt and answer, the additive ones over the answer, and each truncation
    looks at the whole row; in vLLM and transformers top_p looks at what top_k and min_p have kept.
    """
    z = np.asarray(logits, np.float64).copy()
    for token in set(answer):
        z[token] -= presence_penalty + frequency_penalty * list(answer).count(token)
    for token in {*prompt, *answer}:
        z[token] = z[token] / repetition_penalty if z[token] > 0 else z[token] * repetition_penalty
    for token, bias in logit_bias.items():
        z[int(token)] += bias
    p = softmax(z / temperature)
    order = np.argsort(-p, kind="stable")
    kept = np.zeros(len(p), bool)
    kept[order[: top_k or len(p)]] = True
    kept &= p >= min_p * p.max()
    masses = np.where(kept, p, 0) / p[kept].sum() if top_p_of_the_kept else p
    before = np.cumsum(masses[order]) - masses[order]
    kept[order[before > top_p]] = False
    p[~kept] = 0
    return p / p.sum()

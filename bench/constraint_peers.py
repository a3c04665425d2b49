#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times of xgrammar and llguidance for the languages of bench/constraints, from left to right.

usage: constraint_peers.py TOKENS.tiktoken

Both are run by one thread, with the schemas and the vocabulary of constraint_tables.py. Strings are drawn at random
among the tokens that a mask allows. Prints, for each language, the time to compile it, the mean and the longest time of a
mask, and the mean with the mask of the same prefix asked for again by a new matcher.
"""
import base64
import json
import pathlib
import random
import sys
import time

import numpy as np

from constraint_tables import PERSON, RECORD, order

LANGUAGES = {"date": "[0-9]{4}-[0-9]{2}-[0-9]{2}", "person": PERSON, "record": RECORD, "order": order(60, 20)}
LONGEST, STRINGS, SPECIAL = 128, 4, 293  # tokens of a string, strings, tokens without text


def tokens_of(path):
    return [base64.b64decode(line.split()[0]) for line in pathlib.Path(path).read_text().splitlines()]


class Xgrammar:
    def __init__(self, tokens):
        import torch
        import xgrammar

        torch.set_num_threads(1)
        self.x, self.vocab, self.eos = xgrammar, len(tokens) + SPECIAL, len(tokens) + SPECIAL - 2
        info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, vocab_size=self.vocab, stop_token_ids=[self.eos])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.bits = xgrammar.allocate_token_bitmask(1, self.vocab)

    def compile(self, language):
        if isinstance(language, str):
            return self.compiler.compile_regex(language)
        return self.compiler.compile_json_schema(json.dumps(language))

    def begin(self, compiled):
        return self.x.GrammarMatcher(compiled)

    def mask(self, matcher):
        matcher.fill_next_token_bitmask(self.bits)

    def words(self):
        return self.bits.numpy()[0].view(np.uint32)

    def accept(self, matcher, token):
        return matcher.accept_token(token)


class Llguidance:
    def __init__(self, tokens):
        import llguidance
        import llguidance.numpy

        vocab = len(tokens) + SPECIAL
        self.eos = vocab - 2
        special = list(range(len(tokens), vocab))

        class Tokenizer:  # as llguidance.TokenizerWrapper wants it
            eos_token_id, bos_token_id, special_token_ids = self.eos, None, special

            def __init__(self):
                self.tokens = [*tokens, *(b"<special_%d>" % i for i in special)]

            def __call__(self, text):
                raise NotImplementedError

        class Bytes(Tokenizer):
            def __call__(self, text):  # one token for each byte: it is not asked for in these loops
                single = {t: i for i, t in enumerate(tokens) if len(t) == 1}
                return [single[bytes([b])] for b in (text.encode() if isinstance(text, str) else text)]

        self.l = llguidance
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))
        self.bits = llguidance.numpy.allocate_token_bitmask(1, vocab)

    def compile(self, language):
        kind = self.l.LLMatcher
        made = kind.grammar_from_regex(language) if isinstance(language, str) else kind.grammar_from_json_schema(
            json.dumps(language))
        self.begin(made)
        return made

    def begin(self, compiled):
        matcher = self.l.LLMatcher(self.tokenizer, compiled)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def mask(self, matcher):
        self.l.numpy.fill_next_token_bitmask(matcher, self.bits)

    def words(self):
        return self.bits[0].view(np.uint32)

    def accept(self, matcher, token):
        return matcher.consume_token(token)


def measured(engine, language):
    start = time.perf_counter()
    compiled = engine.compile(language)
    compile_time = time.perf_counter() - start
    draw, first, again = random.Random(1), [], []
    for _ in range(STRINGS):
        matcher, taken = engine.begin(compiled), []
        for _ in range(LONGEST):
            start = time.perf_counter()
            engine.mask(matcher)
            first.append(time.perf_counter() - start)
            allowed = np.flatnonzero(np.unpackbits(engine.words().view(np.uint8), bitorder="little"))
            if len(allowed) == 0:  # of xgrammar, whose stop token has no text here
                break
            token = int(draw.choice(allowed))
            if token == engine.eos:
                break
            if engine.accept(matcher, token) is False:
                raise RuntimeError(f"the mask allows token {token}, which is refused")
            taken.append(token)
        matcher = engine.begin(compiled)
        for token in taken:
            start = time.perf_counter()
            engine.mask(matcher)
            again.append(time.perf_counter() - start)
            engine.accept(matcher, token)
    return compile_time, first, again


def main():
    tokens = tokens_of(sys.argv[1])
    print("| language | engine | compile | mask, mean | worst | again | masks |\n| --- | --- | --- | --- | --- | --- | --- |")
    for make in (Xgrammar, Llguidance):
        start = time.perf_counter()
        engine = make(tokens)
        made = time.perf_counter() - start
        name = make.__name__.lower()
        for language, of in LANGUAGES.items():
            compile_time, first, again = measured(engine, of)
            print(f"| {language} | {name} | {compile_time * 1e3:.0f} ms | {np.mean(first) * 1e6:.1f} us | "
                  f"{np.max(first) * 1e6:.0f} us | {np.mean(again or [0]) * 1e6:.1f} us | {len(first)} |", flush=True)
        print(f"| vocabulary | {name} | {made * 1e3:.0f} ms | | | | |", flush=True)


if __name__ == "__main__":
    main()

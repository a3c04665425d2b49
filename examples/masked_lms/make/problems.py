# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the problems of a masked language model: real sequences with some of their tokens masked, or wrong.

usage: problems.py reactions example_rxns.csv OUT.jsonl [COUNT]
       problems.py antibodies abstar-0.8.0-py3-none-any.whl OUT.jsonl [COUNT]
       problems.py heavy_chains abstar-0.8.0-py3-none-any.whl OUT.jsonl [COUNT]

example_rxns.csv is of the repository rxn4chemistry/rxnmapper, the wheel is on PyPI; both are MIT. Each sequence is
masked three times, 15, 30 and 50 % of its tokens drawn at random with a fixed seed, as the tasks mask_15, mask_30
and mask_50; of a heavy chain 5 and 15 % are replaced by other amino acids, as the tasks edit_5 and edit_15. The stored
files have a COUNT of 200 reactions, 60 antibodies and 200 heavy chains. A problem is a line of JSON: "given" has '_' for
each masked token, "answer" is the sequence, "edit" says that given tokens may be wrong.
"""
import csv
import hashlib
import io
import json
import random
import re
import sys
import zipfile

SHARES, WRONG_SHARES = (15, 30, 50), (5, 15)
AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
SOURCES = {"reactions": "37e52a6ffd11b23e0fc072fa20b8abbb4dda9ac39ff5b14ec1241a34c4002a68",
           "antibodies": "c3c25dd4c0ebcd8173fdd4737539957dfd2f5ca25a0a71cc7a1f2643cdb898f4"}
SOURCES["heavy_chains"] = SOURCES["antibodies"]

# A token of a reaction: an atom in brackets, an element of two letters, >>, a ring of two digits, or a character.
TOKEN = re.compile(r"\[[^\]]+\]|Br|Cl|>>|%[0-9]{2}|.")
CODONS = {a + b + c: "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"[16 * i + 4 * j + k]
          for i, a in enumerate("TCAG") for j, b in enumerate("TCAG") for k, c in enumerate("TCAG")}


def content(which, file):
    with open(file, "rb") as source:
        data = source.read()
    found = hashlib.sha256(data).hexdigest()
    if found != SOURCES[which]:
        sys.exit(f"{file}: sha256 {found}, must be {SOURCES[which]}")
    return data


def reactions(data):
    """Reactions of 30 to 110 tokens."""
    for row in csv.DictReader(io.StringIO(data.decode("ascii"))):
        tokens = TOKEN.findall(row["rxn"])
        if 30 <= len(tokens) <= 110:
            yield tokens


def translated(dna):
    """The amino acids of a sequence that starts with a whole codon; none if a codon is unclear or a stop."""
    letters = [CODONS.get(dna[i:i + 3].upper(), "*") for i in range(0, len(dna) - 2, 3)]
    return None if "*" in letters else letters


class Family:
    """Tells a chain from those before it: it shares less than half of its runs of five amino acids with each."""

    def __init__(self):
        self.taken = []

    def is_new(self, letters):
        runs = {tuple(letters[i:i + 5]) for i in range(len(letters) - 4)}
        new = all(2 * len(runs & other) < len(runs) for other in self.taken)
        self.taken.extend([runs] if new else [])
        return new


def records(data, name):
    text = zipfile.ZipFile(io.BytesIO(data)).read(f"abstar/test_data/{name}.fasta").decode("ascii")
    return ["".join(record.split("\n")[1:]) for record in text.split(">")[1:]]


def antibodies(data):
    """Heavy and light chains in turn: variable domains of broadly neutralising antibodies against HIV. Many are of one
    family, of which one is taken."""
    known = Family()

    def chains(name):
        for dna in records(data, f"test_hiv_bnab_{name}"):
            letters = translated(dna)
            if letters and 95 <= len(letters) <= 140 and known.is_new(letters):
                yield letters
    for pair in zip(chains("hcs"), chains("lcs")):
        yield from pair


def heavy_chains(data):
    """Variable domains of human heavy chains, from the third residue before the first cysteine to the end of the J
    segment. The reads begin somewhere in the domain, in any frame."""
    known = Family()
    for dna in records(data, "test_1k"):
        for frame in range(3):
            protein = "".join(CODONS.get(dna[i:i + 3].upper(), "*") for i in range(frame, len(dna) - 2, 3))
            end = re.search(r"W[GSR].GT.V[TS]VSS", protein)
            begin = re.search(r"[LVIM].[LVI][ST]C", protein[:40])
            if begin and end and "*" not in protein[:end.end()]:
                letters = list(protein[begin.start():end.end()])
                if 90 <= len(letters) <= 130 and known.is_new(letters):
                    yield letters
                break


def problems(sequences, count, shares, wrong=False):
    """Each sequence once under each share, masked or wrong; the same for the same sequences."""
    r, seen = random.Random(2026), set()
    for tokens in sequences:
        answer = "".join(tokens)
        if answer in seen:
            continue
        seen.add(answer)
        for share in shares:
            chosen = set(r.sample(range(len(tokens)), max(1, round(len(tokens) * share / 100))))
            given = [t if i not in chosen else r.choice(AMINO_ACIDS.replace(t, "")) if wrong else "_" for i, t in enumerate(tokens)]
            yield {"task": f"{'edit' if wrong else 'mask'}_{share}", "given": "".join(given), "answer": answer, **({"edit": True} if wrong else {})}
        if len(seen) == count:
            return


if __name__ == "__main__":
    which, source, out = sys.argv[1:4]
    read, wrong = {"reactions": reactions, "antibodies": antibodies, "heavy_chains": heavy_chains}[which], which == "heavy_chains"
    made = problems(read(content(which, source)), int((sys.argv[4:] or [100])[0]), WRONG_SHARES if wrong else SHARES, wrong)
    with open(out, "w", encoding="ascii") as file:
        file.writelines(json.dumps(p) + "\n" for p in made)

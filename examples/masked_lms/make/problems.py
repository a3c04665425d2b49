# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the problems of a masked language model: real sequences with some of their tokens masked.

usage: problems.py reactions example_rxns.csv OUT.jsonl [COUNT]
       problems.py antibodies abstar-0.8.0-py3-none-any.whl OUT.jsonl [COUNT]

example_rxns.csv is of the repository rxn4chemistry/rxnmapper, the wheel is on PyPI; both are MIT. Each sequence is
masked three times, 15, 30 and 50 % of its tokens drawn at random with a fixed seed, as the tasks mask_15, mask_30
and mask_50. The stored files have a COUNT of 200 reactions and 60 antibodies. A problem is a line of JSON: "given" has '_' for each masked token, "answer" is the sequence.
"""
import csv
import hashlib
import io
import json
import random
import re
import sys
import zipfile

SHARES = (15, 30, 50)
SOURCES = {"reactions": "37e52a6ffd11b23e0fc072fa20b8abbb4dda9ac39ff5b14ec1241a34c4002a68",
           "antibodies": "c3c25dd4c0ebcd8173fdd4737539957dfd2f5ca25a0a71cc7a1f2643cdb898f4"}

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


def antibodies(data):
    """Heavy and light chains in turn: variable domains of broadly neutralising antibodies against HIV. Many are of one
    family, so a chain that shares half of its runs of five amino acids with one before it is left out."""
    taken = []

    def is_new(letters):
        runs = {tuple(letters[i:i + 5]) for i in range(len(letters) - 4)}
        new = all(2 * len(runs & other) < len(runs) for other in taken)
        taken.extend([runs] if new else [])
        return new

    def chains(name):
        text = zipfile.ZipFile(io.BytesIO(data)).read(f"abstar/test_data/test_hiv_bnab_{name}.fasta").decode("ascii")
        for record in text.split(">")[1:]:
            letters = translated("".join(record.split("\n")[1:]))
            if letters and 95 <= len(letters) <= 140 and is_new(letters):
                yield letters
    for pair in zip(chains("hcs"), chains("lcs")):
        yield from pair


def problems(sequences, count):
    """Each sequence once under each share; the same for the same sequences."""
    r, seen = random.Random(2026), set()
    for tokens in sequences:
        answer = "".join(tokens)
        if answer in seen:
            continue
        seen.add(answer)
        for share in SHARES:
            masked = set(r.sample(range(len(tokens)), max(1, round(len(tokens) * share / 100))))
            yield {"task": f"mask_{share}", "given": "".join("_" if i in masked else t for i, t in enumerate(tokens)), "answer": answer}
        if len(seen) == count:
            return


if __name__ == "__main__":
    which, source, out = sys.argv[1:4]
    made = problems({"reactions": reactions, "antibodies": antibodies}[which](content(which, source)), int((sys.argv[4:] or [100])[0]))
    with open(out, "w", encoding="ascii") as file:
        file.writelines(json.dumps(p) + "\n" for p in made)

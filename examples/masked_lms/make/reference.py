# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what the tests compare the example engine with: logits and decodes of the models by transformers.

usage: reference.py {rxnmapper,antiberty,sapiens_heavy} WHEELS PROBLEMS.jsonl OUT.jsonl

The first line has token ids of a masked sequence and the logits of its first masked positions, in double precision;
each further line a problem's restored tokens under the threshold 0.9 and its forward passes, in f32; of a problem whose
given tokens may be wrong the tokens when those are replaced that are less probable than another one above 0.7, until
nothing changes, at most 16 times. Needs PyTorch and transformers.
"""
import json
import os
import sys

import torch
import transformers

from export import checkpoint
from problems import TOKEN

ROWS, DECODES, THRESHOLD, EDITS, MOST_EDITS = 6, {"rxnmapper": 6, "antiberty": 1, "sapiens_heavy": 6}, 0.9, 0.7, 16


def load(name, wheels):
    config, state, tokens = checkpoint(name, wheels)
    kinds = {"albert": (transformers.AlbertForMaskedLM, transformers.AlbertConfig), "bert": (transformers.BertForMaskedLM, transformers.BertConfig)}
    model, configuration = kinds[config.pop("model_type")]
    model = model(configuration(**{k: v for k, v in config.items() if k != "architectures"}))
    missing, _ = model.load_state_dict(state, strict=False)  # heads of other tasks are left over
    assert not missing, missing
    return model.eval(), tokens


def ids(tokens, text, mask):
    pieces = TOKEN.findall(text)
    return [tokens.index("[CLS]")] + [mask if p == "_" else tokens.index(p) for p in pieces] + [tokens.index("[SEP]")]


@torch.no_grad()
def decode(model, x, mask, barred):
    """Every masked position above the threshold, or the most confident one; `barred` tokens are never proposed."""
    x, forwards = x.clone(), 0
    while (masked := x == mask).any():
        logits = model(x).logits
        logits[..., barred] = -torch.inf
        best, token = logits.softmax(-1).max(-1)
        best = best.masked_fill(~masked, -1)
        take = masked & (best > THRESHOLD)
        take[0, best[0].argmax()] = True
        x, forwards = torch.where(take, token, x), forwards + 1
    return x, forwards


@torch.no_grad()
def edit(model, x, barred):
    """The best token of each position in place of another one, above the threshold."""
    x, forwards, changed = x.clone(), 0, True
    while changed and forwards < MOST_EDITS:
        logits = model(x).logits
        logits[..., barred] = -torch.inf
        best, token = logits.softmax(-1).max(-1)
        take = (best > EDITS) & (token != x)
        take[0, [0, -1]] = False
        x, forwards, changed = torch.where(take, token, x), forwards + 1, bool(take.any())
    return x, forwards


def main():
    name, wheels, problems, out = sys.argv[1:]
    model, tokens = load(name, wheels)
    mask, barred = tokens.index("[MASK]"), [i for i, t in enumerate(tokens) if t.startswith("[") and t[1:].rstrip("]0123456789") in ("PAD", "UNK", "CLS", "SEP", "MASK", "unused")]
    with open(problems, encoding="ascii") as file:
        lines = sorted((json.loads(line) for line in file), key=lambda p: len(p["given"]))
    with open(out, "w", encoding="ascii") as file:
        x = torch.tensor([ids(tokens, lines[0]["given"], mask)])
        rows = (x[0] == mask).nonzero().flatten().tolist()[:ROWS] or list(range(1, 1 + ROWS))
        with torch.no_grad():
            z = model.double()(x).logits[0]
        logits = [[float(f"{v:.7g}") for v in z[row].tolist()] for row in rows]
        file.write(json.dumps({"tokens": x[0].tolist(), "rows": rows, "logits": logits}) + "\n")
        model.float()
        for p in lines[:DECODES[name]]:
            x = torch.tensor([ids(tokens, p["given"], mask)])
            restored, forwards = edit(model, x, barred) if p.get("edit") else decode(model, x, mask, barred)
            right = torch.tensor([ids(tokens, p["answer"], mask)])
            file.write(json.dumps({**p, "tokens": restored[0].tolist(), "forwards": forwards, "restored": int(((restored == right) & (x != right)).sum())}) + "\n")


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    main()

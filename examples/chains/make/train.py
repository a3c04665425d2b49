# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Train a small LLaDA on the tasks of tasks.py, on one CPU core. Usage: train.py OUT.pt MINUTES [SEED]

Every step sees all tasks: one part of the batch a task, of problems with the same lengths, so nothing is padded. A
share of the canvas drawn uniformly is masked; clues never are. OUT.pt is written every two minutes: a moving average
of the weights.
"""
import collections, os, random, sys, time, torch
import torch.nn as nn, torch.nn.functional as F
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "training"))
from llada import Denoiser, Optimizers, Shape
from tasks import BOS, MASK, SEEDS, TASKS, VOCAB, encode, set_of

SHAPE = Shape(vocab=VOCAB, context=256, width=96, unique=4, rounds=3, heads=4, ffn=256, rope_base=1000.0)
TOKENS = dict(trace=1300, path=1300, reach=900, copy=250, sort=250, shuffle=200)   # of a step

class Batches:
    """Training problems of one task, grouped by their lengths."""
    def __init__(s, task, r): s.task, s.r, s.waiting = task, r, collections.defaultdict(list)
    def next(s):
        """ids [n, T] and the canvas' positions that may be masked, of n problems of one length."""
        while True:
            p = TASKS[s.task](s.r)
            if set_of(p.key) != "training": continue
            group = s.waiting[len(p.prompt), len(p.answer)]; group.append(p)
            if len(group) * (1 + len(p.prompt) + len(p.answer)) >= TOKENS[s.task]:
                del s.waiting[len(p.prompt), len(p.answer)]
                ids = torch.tensor([[BOS] + encode(q.prompt) + encode(q.answer) for q in group])
                free = torch.tensor([[False] * (1 + len(q.prompt)) + [c == "_" for c in q.given] for q in group])
                return ids, free

def mask(free):
    """Which of the free positions are masked: a share of each row drawn uniformly, at least one."""
    n = len(free); share = ((torch.rand(1) + torch.arange(n) / n) % 1)[torch.randperm(n)]
    rank = torch.where(free, torch.rand(free.shape), torch.tensor(2.0)).argsort(1).argsort(1)
    return (rank < (share * free.sum(1)).ceil().clamp(min=1)[:, None]) & free

def main():
    path, minutes = sys.argv[1], float(sys.argv[2]); seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    torch.set_num_threads(1); torch.manual_seed(seed); r = random.Random(SEEDS["training"] + seed)
    model, average = Denoiser(SHAPE), Denoiser(SHAPE); average.load_state_dict(model.state_dict()); fast = torch.compile(model, dynamic=True)
    optimizers = Optimizers(model, 0.02, 3e-3); batches = {t: Batches(t, r) for t in TOKENS}; mean, start, step, saved = {}, time.time(), 0, time.time()
    while (done := (time.time() - start) / (60 * minutes)) < 1:
        step += 1; optimizers.rate(step, done); optimizers.zero_grad()
        for task, b in batches.items():
            ids, free = b.next(); masked = mask(free)
            with torch.autocast("cpu", dtype=torch.bfloat16): logits = fast(torch.where(masked, MASK, ids))
            loss = F.cross_entropy(logits.float()[masked], ids[masked]); loss.backward()
            mean[task] = loss.item() if task not in mean else 0.98 * mean[task] + 0.02 * loss.item()
        optimizers.step(); decay = min(0.998, step / (step + 20))
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()): a.lerp_(p, 1 - decay)
        if step % 50 == 0: print(f"step {step} {done:.3f}", {k: round(v, 3) for k, v in mean.items()}, f"{(time.time() - start) / step:.3f} s/step", flush=True)
        if time.time() - saved > 120:
            saved = time.time(); torch.save(average.state_dict(), path + ".new"); os.replace(path + ".new", path)
    torch.save(average.state_dict(), path)

if __name__ == "__main__": main()

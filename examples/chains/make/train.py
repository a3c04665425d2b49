# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Train a small LLaDA on tasks of tasks.py, on one CPU core. Usage: train.py OUT.pt MINUTES [SEED] [MODEL] [START.gguf]

MODEL is chains (the default), waiting or block_causal. START has the weights to begin with; without it they are drawn.
Every step sees all its tasks: one part of the batch a task, of problems with the same lengths, so nothing is padded. A
share of the canvas drawn uniformly is masked; clues never are. MINUTES are of the processor, not of the clock. Every
two of them OUT.pt is written, a moving average of the weights, and OUT.pt.resume, from which the same command goes on.
"""
import collections, dataclasses, os, random, sys, time, torch
import torch.nn as nn, torch.nn.functional as F
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "training"))
import gguf_file
from llada import Denoiser, Optimizers, Shape
from tasks import BOS, MASK, SEEDS, TASKS, VOCAB, encode, set_of

SHAPES = dict(chains=Shape(vocab=VOCAB, context=256, width=96, unique=4, rounds=3, heads=4, ffn=256, rope_base=1000.0),
              waiting=Shape(vocab=VOCAB, context=256, width=96, unique=3, rounds=1, heads=4, ffn=256, rope_base=1000.0))
SHAPES["block_causal"] = dataclasses.replace(SHAPES["waiting"], block=32, prefix=1 + len("total:"))   # BOS and the prompt
TOKENS = dict(chains=dict(trace=1300, path=1300, reach=900, copy=250, sort=250, shuffle=200), waiting=dict(waiting=4900))   # of a step
TOKENS["block_causal"] = TOKENS["waiting"]

class Batches:
    """Training problems of one task, grouped by their lengths."""
    def __init__(s, task, tokens, r): s.task, s.tokens, s.r, s.waiting = task, tokens, r, collections.defaultdict(list)
    def next(s):
        """ids [n, T] and the canvas' positions that may be masked, of n problems of one length."""
        while True:
            p = TASKS[s.task](s.r)
            if set_of(p.key) != "training": continue
            group = s.waiting[len(p.prompt), len(p.answer)]; group.append(p)
            if len(group) * (1 + len(p.prompt) + len(p.answer)) >= s.tokens:
                del s.waiting[len(p.prompt), len(p.answer)]
                ids = torch.tensor([[BOS] + encode(q.prompt) + encode(q.answer) for q in group])
                free = torch.tensor([[False] * (1 + len(q.prompt)) + [c == "_" for c in q.given] for q in group])
                return ids, free

def mask(free):
    """Which of the free positions are masked: a share of each row drawn uniformly, at least one."""
    n = len(free); share = ((torch.rand(1) + torch.arange(n) / n) % 1)[torch.randperm(n)]
    rank = torch.where(free, torch.rand(free.shape), torch.tensor(2.0)).argsort(1).argsort(1)
    return (rank < (share * free.sum(1)).ceil().clamp(min=1)[:, None]) & free

class Training:
    """All that a training goes on from; `seconds` are of the processor."""
    def __init__(s, name, seed, start=None):
        torch.manual_seed(seed); s.r = random.Random(SEEDS["training"] + seed)
        s.model, s.average = Denoiser(SHAPES[name]), Denoiser(SHAPES[name])
        if start: s.model.load_state_dict(gguf_file.read(SHAPES[name], start))
        s.average.load_state_dict(s.model.state_dict())
        s.optimizers = Optimizers(s.model, 0.02, 3e-3); s.batches = {t: Batches(t, n, s.r) for t, n in TOKENS[name].items()}
        s.mean, s.step, s.seconds = {}, 0, 0.0
    def save(s, path):
        state = dict(model=s.model.state_dict(), average=s.average.state_dict(), optimizers=[o.state_dict() for o in s.optimizers.all], mean=s.mean,
                     step=s.step, seconds=s.seconds, drawn=s.r.getstate(), torch=torch.get_rng_state(), waiting=[dict(b.waiting) for b in s.batches.values()])
        for value, name in ((state, path + ".resume"), (s.average.state_dict(), path)): torch.save(value, name + ".new"); os.replace(name + ".new", name)
    def resume(s, path):
        state = torch.load(path, weights_only=False); s.model.load_state_dict(state["model"]); s.average.load_state_dict(state["average"])
        for o, saved in zip(s.optimizers.all, state["optimizers"]): o.load_state_dict(saved)
        for b, saved in zip(s.batches.values(), state["waiting"]): b.waiting.update(saved)
        s.mean, s.step, s.seconds = state["mean"], state["step"], state["seconds"]; s.r.setstate(state["drawn"]); torch.set_rng_state(state["torch"])

def main():
    path, minutes = sys.argv[1], float(sys.argv[2]); seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1; name = sys.argv[4] if len(sys.argv) > 4 else "chains"
    torch.set_num_threads(1); t = Training(name, seed, *sys.argv[5:6]); before = 0.0
    if os.path.exists(path + ".resume"): t.resume(path + ".resume"); before = t.seconds; print(f"goes on from step {t.step}", flush=True)
    saved, fast = before, torch.compile(t.model, dynamic=True)
    while (done := t.seconds / (60 * minutes)) < 1:
        t.step += 1; t.optimizers.rate(t.step, done); t.optimizers.zero_grad()
        for task, b in t.batches.items():
            ids, free = b.next(); masked = mask(free)
            with torch.autocast("cpu", dtype=torch.bfloat16): logits = fast(torch.where(masked, MASK, ids))
            loss = F.cross_entropy(logits.float()[masked], ids[masked]); loss.backward()
            t.mean[task] = loss.item() if task not in t.mean else 0.98 * t.mean[task] + 0.02 * loss.item()
        t.optimizers.step(); decay = min(0.998, t.step / (t.step + 20))
        with torch.no_grad():
            for a, p in zip(t.average.parameters(), t.model.parameters()): a.lerp_(p, 1 - decay)
        t.seconds = before + time.process_time()
        if t.step % 50 == 0: print(f"step {t.step} {done:.3f}", {k: round(v, 3) for k, v in t.mean.items()}, f"{t.seconds / t.step:.3f} s/step", flush=True)
        if t.seconds - saved > 120: saved = t.seconds; t.save(path)
    t.save(path)

if __name__ == "__main__": main()

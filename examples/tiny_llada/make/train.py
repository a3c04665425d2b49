# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Train a tiny LLaDA-architecture masked-diffusion LM on CPU. Usage: train.py OUT.pt MINUTES [INIT.pt]

Every step sees all tasks (gradient accumulation, one sub-batch a task). Matrices inside the layers are trained by Muon
(momentum orthogonalised by Newton-Schulz), embeddings, head and norms by AdamW.
"""
import os, random, sys, time, torch
import torch.nn.functional as F
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "training"))
from llada import Denoiser, Optimizers, Shape
from tasks import TASKS, MASK, EOS, BOS, VOCAB, encode, decode

SHAPE = Shape(vocab=VOCAB, context=256, width=128, unique=6, rounds=1, heads=4, ffn=384, rope_base=10000.0, std=0.02)
GEN = 40                                        # answer positions

def sub_batch(r, name, n):
    f = TASKS[name]; pool = sorted((f(r) for _ in range(n * 4)), key=lambda pa: len(pa[0])); i = r.randrange(3 * n + 1); pool = pool[i:i + n]
    P = max(len(p) for p, _ in pool) + 1; G = min(GEN, max(len(a) for _, a in pool) + r.choice([2, 4, 8, GEN]))
    prompt = torch.tensor([[BOS] * (P - len(p)) + encode(p) for p, _ in pool])
    return prompt, torch.tensor([(encode(a) + [EOS] * GEN)[:G] for _, a in pool])

@torch.no_grad()
def generate(model, prompt, block=20, tau=0.9):
    """Fast-dLLM style threshold decoding, batch 1; returns tokens and forward passes."""
    x = torch.cat([torch.tensor([[BOS] + prompt]), torch.full((1, GEN), MASK)], 1); s = len(prompt) + 1; nfe = 0
    for b in range(s, s + GEN, block):
        while (x[0, b:b + block] == MASK).any():
            lg = model(x)[0, b:b + block]; lg[:, MASK] = -1e30; nfe += 1; p, t = lg.softmax(-1).max(-1)
            m = x[0, b:b + block] == MASK; p = p.masked_fill(~m, -1); take = (p > tau); take[p.argmax()] = True
            x[0, b:b + block][take] = t[take]
    return x[0, s:].tolist(), nfe

def evaluate(model, n=40, seed=777, **kw):
    out = {}
    for name, f in TASKS.items():
        r = random.Random(seed); ok = nfe = 0
        for _ in range(n):
            p, a = f(r); ids, k = generate(model, encode(p), **kw); ok += decode(ids).rstrip() == a; nfe += k
        out[name] = (round(ok / n, 3), round(nfe / n, 1))
    return out

def main():
    path, minutes = sys.argv[1], float(sys.argv[2])
    torch.set_num_threads(int(os.environ.get('OMP_NUM_THREADS', 2))); torch.manual_seed(1); r = random.Random(time.time()); model = Denoiser(SHAPE)
    if len(sys.argv) > 3: model.load_state_dict(torch.load(sys.argv[3]))
    optimizers = Optimizers(model, float(os.environ.get('MUON', 0.01)), 2e-3)
    start = time.time(); step = 0; avg = None; last = start; n = int(os.environ.get('BATCH', 20))
    while True:
        done = (time.time() - start) / (minutes * 60)
        if done >= 1: break
        optimizers.rate(step + 1, done); optimizers.zero_grad(); total = {}
        for name in TASKS:
            prompt, answer = sub_batch(r, name, n); G = answer.shape[1]
            t = ((torch.rand(1) + torch.arange(n) / n) % 1).clamp(0.03)[:, None]
            m = torch.rand(n, G) < t; m[:, 0] |= ~m.any(1)
            noisy = torch.where(m, torch.tensor(MASK), answer)
            with torch.autocast('cpu', dtype=torch.bfloat16, enabled=os.environ.get('BF16', '1') == '1'):
                logits = model(torch.cat([prompt, noisy], 1))[:, prompt.shape[1]:]
            w = m * torch.where(answer == EOS, 0.2, 1.0)
            loss = (F.cross_entropy(logits.float().transpose(1, 2), answer, reduction="none") * w).sum() / w.sum()
            (loss / len(TASKS)).backward(); total[name] = loss.item()
        optimizers.step()
        step += 1; avg = total if avg is None else {k: 0.97 * avg[k] + 0.03 * total[k] for k in total}
        if step % 100 == 0: print(f"step {step}", {k: round(v, 3) for k, v in avg.items()}, f"{(time.time()-start)/step:.3f} s/step", flush=True)
        if time.time() - last > 900:
            last = time.time(); torch.save(model.state_dict(), path); print("eval", evaluate(model, 10), flush=True)
    torch.save(model.state_dict(), path); print("final", evaluate(model, 50), flush=True); print("one a step", evaluate(model, 50, tau=2.0), flush=True)

if __name__ == "__main__": main()

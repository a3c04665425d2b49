# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Train a tiny LLaDA-architecture masked-diffusion LM on CPU. Usage: train.py OUT.pt MINUTES [INIT.pt]

Every step sees all tasks (gradient accumulation, one sub-batch a task). Matrices inside the layers are trained by Muon
(momentum orthogonalised by Newton-Schulz), embeddings, head and norms by AdamW.
"""
import math, os, random, sys, time, torch
import torch.nn as nn, torch.nn.functional as F
from tasks import TASKS, MASK, EOS, BOS, VOCAB, encode, decode

D, LAYERS, HEADS, FFN, GEN = 128, 6, 4, 384, 40

class RMSNorm(nn.Module):
    def __init__(s, d): super().__init__(); s.weight = nn.Parameter(torch.ones(d))
    def forward(s, x): return F.rms_norm(x.float(), (x.shape[-1],), s.weight, 1e-5)

def rope(x, cos, sin):                       # x [B,H,T,hd]; rotates the two halves (NeoX layout)
    a, b = x.chunk(2, -1); return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

class Layer(nn.Module):
    def __init__(s):
        super().__init__(); s.n1, s.n2 = RMSNorm(D), RMSNorm(D)
        s.q, s.k, s.v, s.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        s.gate, s.up, s.down = nn.Linear(D, FFN, bias=False), nn.Linear(D, FFN, bias=False), nn.Linear(FFN, D, bias=False)
    def forward(s, x, cos, sin):
        B, T, _ = x.shape; h = s.n1(x); sh = lambda y: y.view(B, T, HEADS, D // HEADS).transpose(1, 2).float()
        q, k, v = rope(sh(s.q(h)), cos, sin), rope(sh(s.k(h)), cos, sin), sh(s.v(h))
        with torch.autocast('cpu', enabled=False): a = F.scaled_dot_product_attention(q, k, v)
        x = x + s.o(a.transpose(1, 2).reshape(B, T, D)); h = s.n2(x)
        return x + s.down(F.silu(s.gate(h)) * s.up(h))

class Denoiser(nn.Module):
    def __init__(s):
        super().__init__(); s.emb = nn.Embedding(VOCAB, D); s.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        s.norm = RMSNorm(D); s.head = nn.Linear(D, VOCAB, bias=False)
        for n, p in s.named_parameters():
            if p.dim() == 2: nn.init.normal_(p, std=0.02 / (math.sqrt(2 * LAYERS) if n.endswith(("o.weight", "down.weight")) else 1))
    def forward(s, ids):
        T = ids.shape[1]; hd = D // HEADS
        ang = torch.arange(T)[:, None] * (10000.0 ** (-torch.arange(0, hd, 2) / hd))[None]
        x = s.emb(ids); c, n = ang.cos(), ang.sin()
        for l in s.layers: x = l(x, c, n)
        return s.head(s.norm(x))

class Muon(torch.optim.Optimizer):
    def __init__(s, params, lr, momentum=0.95): super().__init__(params, dict(lr=lr, momentum=momentum))
    @torch.no_grad()
    def step(s):
        for g in s.param_groups:
            for p in g["params"]:
                st = s.state[p]; m = st.setdefault("m", torch.zeros_like(p)); m.lerp_(p.grad, 1 - g["momentum"])
                u = p.grad.lerp(m, g["momentum"]); t = u.shape[0] > u.shape[1]; x = u.T if t else u
                x = x / (x.norm() + 1e-7)
                for _ in range(5):
                    a = x @ x.T; x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
                if t: x = x.T
                p.mul_(1 - g["lr"] * 0.01).add_(x, alpha=-g["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)

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
    torch.set_num_threads(int(os.environ.get('OMP_NUM_THREADS', 2))); torch.manual_seed(1); r = random.Random(time.time()); model = Denoiser()
    if len(sys.argv) > 3: model.load_state_dict(torch.load(sys.argv[3]))
    mats = [p for n, p in model.named_parameters() if p.dim() == 2 and n.startswith("layers")]
    rest = [p for n, p in model.named_parameters() if not (p.dim() == 2 and n.startswith("layers"))]
    muon, adam = Muon(mats, float(os.environ.get('MUON', 0.01))), torch.optim.AdamW(rest, lr=2e-3, betas=(0.9, 0.98), weight_decay=0.0)
    base = {id(o): [g["lr"] for g in o.param_groups] for o in (muon, adam)}
    start = time.time(); step = 0; avg = None; last = start; n = int(os.environ.get('BATCH', 20))
    while True:
        done = (time.time() - start) / (minutes * 60)
        if done >= 1: break
        scale = min(1, (step + 1) / 100) * min(1, (1 - done) / 0.6 + 0.01)            # flat, then linear to zero
        for o in (muon, adam):
            for g, b in zip(o.param_groups, base[id(o)]): g["lr"] = b * scale
        muon.zero_grad(); adam.zero_grad(); total = {}
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
        nn.utils.clip_grad_norm_(rest, 1.0); muon.step(); adam.step()
        step += 1; avg = total if avg is None else {k: 0.97 * avg[k] + 0.03 * total[k] for k in total}
        if step % 100 == 0: print(f"step {step}", {k: round(v, 3) for k, v in avg.items()}, f"{(time.time()-start)/step:.3f} s/step", flush=True)
        if time.time() - last > 900:
            last = time.time(); torch.save(model.state_dict(), path); print("eval", evaluate(model, 10), flush=True)
    torch.save(model.state_dict(), path); print("final", evaluate(model, 50), flush=True); print("one a step", evaluate(model, 50, tau=2.0), flush=True)

if __name__ == "__main__": main()

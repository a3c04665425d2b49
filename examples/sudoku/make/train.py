# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Train a small LLaDA on 6x6 Sudokus, on one CPU. Usage: train.py OUT.pt [STEPS] [SEED]

Two layers are applied in turn, four times each: the file written by export.py holds eight. Half of a batch masks any
cells of a full grid, a share drawn uniformly; the other half masks the cells of a puzzle but the clues, the same way.
Matrices inside the layers are trained by Muon (momentum orthogonalised by Newton-Schulz), the others by AdamW; what is
written is a moving average of the weights.
"""
import math, random, sys, time, numpy as np, torch
import torch.nn as nn, torch.nn.functional as F
from puzzles import CELLS, SEEDS, SIDE, BOX_ROWS, BOX_COLUMNS, puzzles, solves

D, UNIQUE, ROUNDS, HEADS, FFN = 96, 2, 4, 4, 256
LAYERS, EPSILON, ROPE_BASE, CONTEXT = UNIQUE * ROUNDS, 1e-5, 100.0, 1 + CELLS
MASK, EOS, BOS, VOCAB = 0, 1, 2, 3 + SIDE       # the digit d is token 2 + d
BATCH, POOL, STEPS, SEED = 128, 20_000, 600, 1

class RMSNorm(nn.Module):
    def __init__(s, d): super().__init__(); s.weight = nn.Parameter(torch.ones(d))
    def forward(s, x): return F.rms_norm(x.float(), (x.shape[-1],), s.weight, EPSILON)

def rope(x, cos, sin):                          # x [B,H,T,hd]; rotates the two halves (NeoX layout)
    a, b = x.chunk(2, -1); return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

class Layer(nn.Module):
    def __init__(s):
        super().__init__(); s.n1, s.n2 = RMSNorm(D), RMSNorm(D)
        s.q, s.k, s.v, s.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        s.gate, s.up, s.down = nn.Linear(D, FFN, bias=False), nn.Linear(D, FFN, bias=False), nn.Linear(FFN, D, bias=False)
    def forward(s, x, cos, sin):
        B, T, _ = x.shape; h = s.n1(x); split = lambda y: y.view(B, T, HEADS, D // HEADS).transpose(1, 2).float()
        q, k, v = rope(split(s.q(h)), cos, sin), rope(split(s.k(h)), cos, sin), split(s.v(h))
        with torch.autocast("cpu", enabled=False): a = F.scaled_dot_product_attention(q, k, v)
        x = x + s.o(a.transpose(1, 2).reshape(B, T, D)); h = s.n2(x)
        return x + s.down(F.silu(s.gate(h)) * s.up(h))

class Denoiser(nn.Module):
    def __init__(s):
        super().__init__(); s.emb = nn.Embedding(VOCAB, D); s.layers = nn.ModuleList(Layer() for _ in range(UNIQUE))
        s.norm = RMSNorm(D); s.head = nn.Linear(D, VOCAB, bias=False)
        for n, p in s.named_parameters():
            if p.dim() == 2: nn.init.normal_(p, std=(1.0 if n == "emb.weight" else 0.5 / math.sqrt(p.shape[1])) / (math.sqrt(2 * LAYERS) if n.endswith(("o.weight", "down.weight")) else 1))
        angles = torch.arange(CONTEXT)[:, None] * (ROPE_BASE ** (-torch.arange(0, D // HEADS, 2) * HEADS / D))[None]
        s.register_buffer("cos", angles.cos(), persistent=False); s.register_buffer("sin", angles.sin(), persistent=False)
    def forward(s, ids):                        # ids [B, 1 + CELLS], the begin token first; logits of every position
        x = s.emb(ids)
        for i in range(LAYERS): x = s.layers[i % UNIQUE](x, s.cos, s.sin)
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

def lines(g, n, size):
    """n random orders of rows (or columns) that keep the boxes: [n, SIDE]."""
    outer = np.argsort(g.random((n, SIDE // size)), 1); inner = np.argsort(g.random((n, SIDE // size, size)), 2)
    return (outer[:, :, None] * size + inner).reshape(n, SIDE)

def held_out(grids):
    """set_of of puzzles.py for many grids: True where it is not 'training'."""
    value = np.zeros(len(grids), np.uint64)
    for p in range(CELLS): value = value * np.uint64(1_000_003) + grids[:, p].astype(np.uint64)
    return (value >> np.uint64(60)) < 2

def batch(g, clues, grids, n):
    """Tokens [n, CELLS] of training grids, and which are masked: symmetric images of those of the pool."""
    i = g.integers(len(grids), size=2 * n)
    order = (lines(g, 2 * n, BOX_ROWS)[:, :, None] * SIDE + lines(g, 2 * n, BOX_COLUMNS)[:, None, :]).reshape(2 * n, CELLS)
    digits = np.argsort(g.random((2 * n, SIDE)), 1) + 1
    grid = np.take_along_axis(digits, np.take_along_axis(grids[i], order, 1) - 1, 1)
    open_cells = np.take_along_axis(clues[i] == 0, order, 1)
    keep = np.flatnonzero(~held_out(grid))[:n]; grid, open_cells = grid[keep], open_cells[keep]; n = len(keep)
    open_cells[: n // 2] = True
    share = (g.random() + np.arange(n) / n) % 1
    rank = np.argsort(np.argsort(np.where(open_cells, g.random((n, CELLS)), 2.0), 1), 1)
    masked = rank < np.maximum(1, np.ceil(g.permutation(share) * open_cells.sum(1)))[:, None]
    return torch.from_numpy(grid + 2), torch.from_numpy(masked & open_cells)

def canvas(tokens): return F.pad(tokens, (1, 0), value=BOS)

@torch.no_grad()
def solve(model, problems, order="confidence", threshold=2.0):
    """Share solved, and forwards of a puzzle: the best masked cell by `order` and every one above the threshold."""
    x = canvas(torch.tensor([[c + 2 if c else MASK for c in cells] for cells, _ in problems])); forwards = 0
    generator = torch.Generator().manual_seed(1); many = torch.arange(len(x))
    while (masked := x == MASK).any():
        forwards += masked.any(1).sum().item(); p = model(x)[:, :, 3:].softmax(-1); two = p.topk(2, -1); best, token = two.values[..., 0], two.indices[..., 0] + 3
        key = dict(confidence=best, margin=best - two.values[..., 1], random=torch.rand(best.shape, generator=generator), left=-torch.arange(x.shape[1]).expand_as(x).float())[order]
        first = key.masked_fill(~masked, -1e9).argmax(1); take = masked & (best > threshold); take[many, first] |= masked.any(1)
        x = torch.where(take, token, x)
    return sum(solves(cells, (row[1:] - 2).tolist()) for (cells, _), row in zip(problems, x)) / len(problems), forwards / len(problems)

def main():
    path, steps, seed = sys.argv[1], *map(int, sys.argv[2:4] + [STEPS, SEED][len(sys.argv) - 2:])
    torch.set_num_threads(1); torch.manual_seed(seed); g = np.random.default_rng(seed); model = Denoiser(); average = Denoiser(); average.load_state_dict(model.state_dict()); fast = torch.compile(model)
    pool = puzzles("training", POOL, SEEDS["training"] + seed); clues = np.array([c for c, _ in pool]); grids = np.array([s for _, s in pool])
    check = puzzles("validation", 200, SEEDS["validation"] + 1)    # others than those that settings are chosen on
    mats = [p for n, p in model.named_parameters() if p.dim() == 2 and n.startswith("layers")]
    rest = [p for n, p in model.named_parameters() if not (p.dim() == 2 and n.startswith("layers"))]
    muon, adam = Muon(mats, 0.02), torch.optim.AdamW(rest, lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0)
    base = {o: [q["lr"] for q in o.param_groups] for o in (muon, adam)}; start = time.time(); mean = None
    for step in range(1, steps + 1):
        done = (step - 1) / steps
        for o in (muon, adam):
            for q, b in zip(o.param_groups, base[o]): q["lr"] = b * min(1, step / 100) * min(1, (1 - done) / 0.6 + 0.01)
        tokens, masked = batch(g, clues, grids, BATCH)
        with torch.autocast("cpu", dtype=torch.bfloat16): logits = fast(canvas(torch.where(masked, MASK, tokens)))[:, 1:]
        loss = F.cross_entropy(logits.float()[masked], tokens[masked]); muon.zero_grad(); adam.zero_grad(); loss.backward()
        nn.utils.clip_grad_norm_(rest, 1.0); muon.step(); adam.step(); decay = min(0.998, step / (step + 20))
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()): a.lerp_(p, 1 - decay)
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step % 100 == 0: print(f"step {step} loss {mean:.4f} {(time.time() - start) / step:.3f} s/step", flush=True)
    torch.save(average.state_dict(), path); check = puzzles("validation", 500, SEEDS["validation"] + 1)
    for order in ("margin", "confidence", "random", "left"): print(order, solve(average, check, order), flush=True)
    for t in (.99, .9, .8, .7, .5, 0): print("threshold", t, solve(average, check, threshold=t), flush=True)

if __name__ == "__main__": main()

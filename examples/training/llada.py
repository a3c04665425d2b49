# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The LLaDA architecture in PyTorch, the optimizer that trains it, and its GGUF file, for the example models.

The models differ in a Shape alone; attention is bidirectional or block-causal, no matrix has a bias.
"""
import dataclasses, math, torch
import torch.nn as nn, torch.nn.functional as F

@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of a model. `unique` layers are applied in turn, `rounds` times; the GGUF file has unique * rounds layers."""
    vocab: int
    context: int            # most positions of a sequence
    width: int
    unique: int
    rounds: int
    heads: int
    ffn: int
    rope_base: float
    epsilon: float = 1e-5   # of RMSNorm
    block: int = 0          # positions of a block whose rows see no later block, counted from `prefix` on; 0: all rows see all
    prefix: int = 0         # positions in front of the first block, which see one another
    std: float = 0.0        # of the initial weights; 0: 1 for the embedding, half of 1/sqrt(inputs) for a matrix

    @property
    def layers(s): return s.unique * s.rounds
    @property
    def head(s): return s.width // s.heads
    def seen(s, position):
        """How many positions, the first ones, a row attends to."""
        past = position - s.prefix
        return s.context if not s.block else s.prefix if past < 0 else s.prefix + (past // s.block + 1) * s.block

class RMSNorm(nn.Module):
    def __init__(s, d, epsilon): super().__init__(); s.weight = nn.Parameter(torch.ones(d)); s.epsilon = epsilon
    def forward(s, x): return F.rms_norm(x.float(), (x.shape[-1],), s.weight, s.epsilon)

def rope(x, cos, sin):                          # x [B,H,T,head]; rotates the two halves (NeoX layout)
    a, b = x.chunk(2, -1); return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

class Layer(nn.Module):
    def __init__(s, shape):
        super().__init__(); s.shape = shape; d, f = shape.width, shape.ffn; s.n1, s.n2 = RMSNorm(d, shape.epsilon), RMSNorm(d, shape.epsilon)
        s.q, s.k, s.v, s.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        s.gate, s.up, s.down = nn.Linear(d, f, bias=False), nn.Linear(d, f, bias=False), nn.Linear(f, d, bias=False)
    def forward(s, x, cos, sin, mask):
        B, T, D = x.shape; h = s.n1(x); split = lambda y: y.view(B, T, s.shape.heads, s.shape.head).transpose(1, 2).float()
        q, k, v = rope(split(s.q(h)), cos, sin), rope(split(s.k(h)), cos, sin), split(s.v(h))
        with torch.autocast("cpu", enabled=False): a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + s.o(a.transpose(1, 2).reshape(B, T, D)); h = s.n2(x)
        return x + s.down(F.silu(s.gate(h)) * s.up(h))

class Denoiser(nn.Module):
    """ids [B, T] to the logits of every position, [B, T, vocab]. T is at most the context."""
    def __init__(s, shape):
        super().__init__(); s.shape = shape; s.emb = nn.Embedding(shape.vocab, shape.width)
        s.layers = nn.ModuleList(Layer(shape) for _ in range(shape.unique))
        s.norm = RMSNorm(shape.width, shape.epsilon); s.head = nn.Linear(shape.width, shape.vocab, bias=False)
        for n, p in s.named_parameters():
            if p.dim() == 2:
                std = shape.std or (1.0 if n == "emb.weight" else 0.5 / math.sqrt(p.shape[1]))
                nn.init.normal_(p, std=std / (math.sqrt(2 * shape.layers) if n.endswith(("o.weight", "down.weight")) else 1))
        angles = torch.arange(shape.context)[:, None] * (shape.rope_base ** (-torch.arange(0, shape.head, 2) / shape.head))[None]
        mask = torch.tensor([[j < shape.seen(i) for j in range(shape.context)] for i in range(shape.context)]) if shape.block else None
        for name, x in dict(cos=angles.cos(), sin=angles.sin(), mask=mask).items(): s.register_buffer(name, x, persistent=False)
    def forward(s, ids):
        T = ids.shape[1]; x, cos, sin = s.emb(ids), s.cos[:T], s.sin[:T]; mask = None if s.mask is None else s.mask[:T, :T]
        for _ in range(s.shape.rounds):
            for layer in s.layers: x = layer(x, cos, sin, mask)
        return s.head(s.norm(x))

class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised by five Newton-Schulz steps; for matrices."""
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

class Optimizers:
    """Muon for the matrices inside the layers, AdamW for the embedding, the head and the norms."""
    def __init__(s, model, muon, adam):
        inside = lambda n, p: p.dim() == 2 and n.startswith("layers")
        s.rest = [p for n, p in model.named_parameters() if not inside(n, p)]
        s.all = [Muon([p for n, p in model.named_parameters() if inside(n, p)], muon),
                 torch.optim.AdamW(s.rest, lr=adam, betas=(0.9, 0.98), weight_decay=0.0)]
        s.base = [muon, adam]
    def rate(s, step, done):
        """Sets the rates: up for 100 steps, flat, then down in a line over the last 60 % of the training; `done` is in 0..1."""
        for o, base in zip(s.all, s.base):
            for g in o.param_groups: g["lr"] = base * min(1, step / 100) * min(1, (1 - done) / 0.6 + 0.01)
    def zero_grad(s):
        for o in s.all: o.zero_grad()
    def step(s):
        nn.utils.clip_grad_norm_(s.rest, 1.0)
        for o in s.all: o.step()

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of examples/tiny_llada in PyTorch, from its GGUF file, and its character tokenizer."""
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from unmask.tiny_llada import BEGIN, END, FIRST, MASK, read_gguf  # noqa: F401


class TinyLlada:
    """Called as a transformers model is: model(ids, attention_mask, position_ids).logits."""

    def __init__(self, path):
        meta, weights = read_gguf(path)
        self.w = {name: torch.from_numpy(weight) for name, weight in weights.items()}
        self.layers, self.heads = meta["llada.block_count"], meta["llada.attention.head_count"]
        self.epsilon = meta["llada.attention.layer_norm_rms_epsilon"]
        width = meta["llada.embedding_length"] // self.heads
        self.turns = meta["llada.rope.freq_base"] ** (-torch.arange(0, width, 2) / width)
        self.config = SimpleNamespace(n_layers=self.layers, n_heads=self.heads, head_dim=width)

    def __call__(self, ids, attention_mask=None, position_ids=None):
        return self.forward(ids, attention_mask, position_ids)

    @torch.no_grad()
    def forward(self, ids, attention_mask=None, position_ids=None):
        batch, length = ids.shape
        if position_ids is None:
            position_ids = torch.arange(length).expand(batch, length)
        angle = (position_ids[..., None] * self.turns)[:, None]
        seen = None if attention_mask is None else attention_mask.bool()[:, None, None]
        heads = lambda x: x.view(batch, length, self.heads, -1).transpose(1, 2)  # noqa: E731
        h = self.w["token_embd.weight"][ids]
        for i in range(self.layers):
            w = lambda name: self.w[f"blk.{i}.{name}.weight"]  # noqa: B023, E731
            x = self.norm(h, w("attn_norm"))
            q, k, v = (heads(x @ w(f"attn_{n}").T) for n in "qkv")
            a = F.scaled_dot_product_attention(turned(q, angle), turned(k, angle), v, attn_mask=seen)
            h = h + a.transpose(1, 2).reshape(batch, length, -1) @ w("attn_output").T
            x = self.norm(h, w("ffn_norm"))
            h = h + (F.silu(x @ w("ffn_gate").T) * (x @ w("ffn_up").T)) @ w("ffn_down").T
        logits = self.norm(h, self.w["output_norm.weight"]) @ self.w["output.weight"].T
        return SimpleNamespace(logits=logits)

    def norm(self, x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * weight


def turned(x, angle):
    """Rotary positions: neighbouring pairs turn together."""
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class CharTokenizer:
    """What a server asks of a tokenizer of transformers."""

    pad_token_id = eos_token_id = END

    def apply_chat_template(self, messages, **_):
        return "".join(m["content"] for m in messages)

    def __call__(self, texts, **_):
        rows = [[BEGIN] + [FIRST + ord(c) - 32 for c in text] for text in texts]
        width = max(map(len, rows))
        ids = torch.tensor([[END] * (width - len(r)) + r for r in rows])
        mask = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows])
        return {"input_ids": ids, "attention_mask": mask}

    def batch_decode(self, rows, skip_special_tokens=True):
        return ["".join(chr(32 + t - FIRST) for t in row.tolist() if t >= FIRST) for row in rows]

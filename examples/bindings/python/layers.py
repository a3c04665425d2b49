# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An engine in PyTorch that computes single positions of its layers: every cache and layer rule.

    python examples/bindings/python/layers.py --policy "es_dllm" --prompt "Q:Ora has 2 books. Buys 8. How many?"

It decodes with the tiny LLaDA of examples/tiny_llada and prints the answer, the forward passes and
the share of their layers that was computed."""
import argparse
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
import unmask

EXAMPLES = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(EXAMPLES / "hosts" / "dlmserve"))
from tiny_llada import BEGIN, END, FIRST, MASK, CharTokenizer, TinyLlada, turned  # noqa: E402


class LayeredLlada(TinyLlada):
    """A sequence of `length` positions: keys and values of every layer, what a layer added to a
    position when it was last computed, and the rows that a policy compares with."""

    def begin(self, length):
        width = self.w["token_embd.weight"].shape[1]
        self.keys, self.values, self.attention, self.feed_forward, self.stored = torch.zeros(
            5, self.layers, length, width)
        self.kept = [[]] * self.layers
        self.queries = torch.zeros(length, width)
        self.computed = 0

    def weight(self, layer, name):
        return self.w[f"blk.{layer}.{name}.weight"]

    def split(self, x):
        return x.view(len(x), self.heads, -1).transpose(0, 1)

    def rotated(self, x, positions):
        angle = positions[:, None] * self.turns
        return turned(self.split(x), angle).transpose(0, 1).flatten(1)

    def input(self, layer, hidden, reads):
        x = self.norm(hidden, self.weight(layer, "attn_norm"))
        return x if reads == "input" else x @ self.weight(layer, f"attn_{reads[0]}").T

    def run(self, layer, hidden, positions, attended):
        """The rows after a layer, which attend to the positions `attended`."""
        w = lambda name: self.weight(layer, name).T  # noqa: E731
        x = self.norm(hidden, self.weight(layer, "attn_norm"))
        self.keys[layer, positions] = self.rotated(x @ w("attn_k"), positions)
        self.values[layer, positions] = x @ w("attn_v")
        q = self.queries[positions] = self.rotated(x @ w("attn_q"), positions)
        k, v = self.keys[layer, attended], self.values[layer, attended]
        a = F.scaled_dot_product_attention(self.split(q), self.split(k), self.split(v))
        self.attention[layer, positions] = a.transpose(0, 1).flatten(1) @ w("attn_output")
        hidden = hidden + self.attention[layer, positions]
        x = self.norm(hidden, self.weight(layer, "ffn_norm"))
        self.feed_forward[layer, positions] = (F.silu(x @ w("ffn_gate")) * (x @ w("ffn_up"))) @ w("ffn_down")
        self.computed += len(positions)
        return hidden + self.feed_forward[layer, positions]

    def select_keys(self, session, i, layer, blocks, keys):
        scores = torch.empty(keys)
        unmask.score_keys(self.keys[layer, :keys], self.queries[blocks].mean(0), scores)
        self.kept[layer] = session.select_keys(i, scores)

    @torch.no_grad()
    def forward_segment(self, session, i, segment, tokens):
        """The logits of segment i of a request."""
        # [layers]
        positions = torch.tensor(session.positions(i))
        hidden = self.w["token_embd.weight"][tokens[positions]]
        everything = torch.arange(segment.keys.stop)
        eviction = session.eviction(i)
        for layer in range(self.layers):
            attended = everything
            if eviction.evict == "chosen":  # the keys that the layer kept, and the decided blocks
                attended = torch.cat([torch.tensor(self.kept[layer], dtype=torch.long), everything[eviction.blocks]])
            hooked = session.hooks(i, layer)
            if hooked and session.reads != "hidden":  # in front of the layer
                rows = session.at_layer(i, layer, self.input(layer, hidden, session.reads), self.stored[layer])
                if session.kept:  # the others keep what the layer added to them before
                    self.run(layer, hidden[rows], positions[rows], attended)
                    hidden = hidden + self.attention[layer, positions] + self.feed_forward[layer, positions]
                else:  # the others leave the pass
                    hidden = self.run(layer, hidden[rows], positions[rows], attended)
            else:
                hidden = self.run(layer, hidden, positions, attended)
            if eviction.evict == "choose":
                self.select_keys(session, i, layer, eviction.blocks, segment.keys.stop)
            if hooked and session.reads == "hidden":  # after it
                hidden = hidden[session.at_layer(i, layer, hidden, self.stored[layer])]
            positions = torch.tensor(session.positions(i))
        hidden = self.norm(hidden[session.rows(i)], self.w["output_norm.weight"])
        # [/layers]
        return hidden @ self.w["output.weight"].T


def decode(model, policy, prompt, answer=40, block=20):
    """Tokens, forward passes and computed positions, summed over the layers."""
    tokens = np.array([BEGIN] + [FIRST + ord(c) - 32 for c in prompt] + [MASK] * answer, dtype=np.int32)
    length = len(tokens)
    vocab = model.w["token_embd.weight"].shape[0]
    session = unmask.Session(policy, vocab=vocab, mask_token=MASK, eos_token=END, length=length, window=length,
                             layers=model.layers)
    session.start(0, tokens, prompt_length=length - answer, block_length=block)
    model.begin(length)
    while (request := session.next()) is not None:
        (segment,) = request.segments  # this engine stores one sequence: no lookahead
        session.supply(model.forward_segment(session, 0, segment, torch.from_numpy(tokens)))
    return tokens, session.report().forwards, model.computed


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--policy", default="es_dllm")
    options.add_argument("--prompt", default="Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?")
    options = options.parse_args()
    model = LayeredLlada(EXAMPLES / "tiny_llada" / "tiny-f16.gguf")
    tokens, forwards, computed = decode(model, options.policy, options.prompt)
    answer = CharTokenizer().batch_decode([tokens[-40:]])[0]
    whole = forwards * len(tokens) * model.layers
    print(f"{answer}\n{forwards} passes, {100 * computed / whole:.0f} % of their layers computed")

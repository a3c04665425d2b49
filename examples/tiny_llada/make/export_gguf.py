# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write the tiny LLaDA-style model as GGUF for llama.cpp. Usage: export_gguf.py MODEL.pt|random OUT.gguf [f32|f16|q8_0]

The file declares the architecture 'llada', which llama.cpp runs without a KV cache. The same hyperparameters are
written a second time under 'llama.', so a host that overrides general.architecture with 'llama' gets the same
network with a KV cache (it must then switch causal attention off itself).
"""
import sys, torch
from tasks import VOCAB, decode
from train import SHAPE, Denoiser
import gguf_file

CHARACTERS = "".join(decode([i]) for i in range(3, VOCAB))
# llama-diffusion-cli always formats a chat; without this it uses ChatML, whose newline has no token here.
CHAT = "{% for m in messages %}{{ m['content'] }}{% endfor %}"

def export(state, path, kind="f16"):
    gguf_file.export(SHAPE, state, path, "tiny-llada", CHARACTERS, kind, ("llada", "llama"), CHAT)

def weights(source):
    """State dict from a checkpoint, or untrained weights large enough to give distinct logits."""
    if source != "random": return torch.load(source, map_location="cpu", weights_only=True)
    torch.manual_seed(0); m = Denoiser(SHAPE)
    with torch.no_grad():
        for p in m.parameters():
            if p.dim() == 2: p.mul_(4)
            else: p.uniform_(0.5, 1.5)
    return m.state_dict()

if __name__ == "__main__": export(weights(sys.argv[1]), sys.argv[2], *sys.argv[3:])

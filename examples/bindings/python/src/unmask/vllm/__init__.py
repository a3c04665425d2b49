# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A general plugin of vLLM: a policy decides the canvases of DiffusionGemma.

vLLM calls register() in every process, by the entry point of the group `vllm.general_plugins`. The
model is that of vLLM; its sampler is replaced where the configuration names a policy:

    vllm serve MODEL --additional-config '{"unmask_policy": "by_entropy + entropy_bound(0.1) + canvas(48)"}'
"""

ARCHITECTURE = "DiffusionGemmaForBlockDiffusion"


def register() -> None:
    """Registers the model by its name; nothing of it is imported before it is loaded."""
    from vllm import ModelRegistry

    ModelRegistry.register_model(ARCHITECTURE, "unmask.vllm.diffusion_gemma:DiffusionGemma")

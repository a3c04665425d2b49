# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A general plugin of vLLM: a policy decides the canvases and blocks of its diffusion language models.

vLLM calls register() in every process, by the entry point of the group `vllm.general_plugins`. The
models are those of vLLM; a sampler is replaced where the configuration names a policy:

    vllm serve MODEL --additional-config '{"unmask_policy": "by_entropy + entropy_bound(0.1) + canvas(48)"}'
"""

MODELS = {
    "DiffusionGemmaForBlockDiffusion": "unmask.vllm.diffusion_gemma:DiffusionGemma",
    "NemotronLabsDiffusionModel": "unmask.vllm.nemotron:NemotronLabsDiffusion",
}
"""By the name of an architecture what replaces it."""


def register() -> None:
    """Registers those that this vLLM has, by name, and its tool parsers; nothing of them is imported before it is loaded."""
    from vllm import ModelRegistry

    from . import tools

    tools.register()
    there = ModelRegistry.get_supported_archs()
    for architecture, model in MODELS.items():
        if architecture in there:
            ModelRegistry.register_model(architecture, model)

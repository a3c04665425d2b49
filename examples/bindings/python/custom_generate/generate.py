# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A checkpoint with this folder decodes by policies: model.generate(ids, trust_remote_code=True,
custom_generate=CHECKPOINT, policy="threshold(0.9)", max_new_tokens=128)."""
from transformers import GenerationMixin


def generate(model, inputs=None, generation_config=None, **kwargs):
    from unmask.transformers import custom_generate

    return GenerationMixin.generate(model, inputs, generation_config, custom_generate=custom_generate, **kwargs)

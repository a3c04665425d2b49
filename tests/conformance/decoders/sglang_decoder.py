# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LowConfidence and JointThreshold of SGLang 0.5.23, from where it is installed."""
import sys
from types import SimpleNamespace

import torch
from serving import serve, written

try:
    from sglang.srt.dllm.algorithm import get_algorithm
    from sglang.srt.dllm.config import DllmConfig
    from sglang.version import __version__
except ImportError as error:
    sys.exit(f"sglang_decoder.py: SGLang cannot be imported: {error}; bash tests/sglang.sh unpacks the release")

# Both thresholds, to see which one it is.
NAMES = {"threshold": "LowConfidence", "threshold_inclusive": "LowConfidence", "edit_committed": "JointThreshold"}
SETTINGS = {"threshold": "threshold", "edit_threshold": "edit_threshold", "max_edits": "max_post_edit_steps"}


def make(request):
    length = len(request["tokens"])
    settings = {theirs: request["settings"][ours] for ours, theirs in SETTINGS.items() if ours in request["settings"]}
    algorithm = get_algorithm(DllmConfig(NAMES[request["rule"]], settings, length, request["mask_token"], 1))
    prompt = torch.zeros(1, length, dtype=torch.bool)
    prompt[0, request["fixed"]] = True
    batch = SimpleNamespace(batch_size=1, dllm_prompt_mask=prompt, input_ids=torch.tensor(request["tokens"]))
    states = algorithm.init_step_state(batch)

    def decide(request):
        batch.input_ids = torch.tensor(request["tokens"])
        algorithm.step(batch, torch.from_numpy(request["logits"]), states)
        return written(request["tokens"], batch.input_ids.tolist())

    return decide


if __name__ == "__main__":
    serve(f"SGLang {__version__}", NAMES, make)

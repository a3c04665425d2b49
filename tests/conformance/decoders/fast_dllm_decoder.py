# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""get_transfer_index of Fast-dLLM (llada/generate.py), from the checkout that FAST_DLLM names."""
import os
import sys

import torch
from serving import serve

if "FAST_DLLM" not in os.environ:
    sys.exit("fast_dllm_decoder.py: FAST_DLLM must name a checkout of Fast-dLLM, which no package index has")
sys.path.insert(0, os.path.join(os.environ["FAST_DLLM"], "llada"))
try:
    import generate
except ImportError as error:
    sys.exit(f"fast_dllm_decoder.py: llada/generate.py of Fast-dLLM cannot be imported: {error}")

# Both thresholds, to see which one it is.
RULES = ["threshold", "threshold_inclusive", "steps_per_block"]
if hasattr(generate, "get_transfer_index_dynamic"):
    RULES.append("factor")


def make(request):
    rule, settings = request["rule"], request["settings"]
    masks = torch.zeros(1, len(request["tokens"]), dtype=torch.bool)
    masks[0, request["masked"]] = True
    quotas = generate.get_num_transfer_tokens(masks, settings["steps"]) if rule == "steps_per_block" else None

    def decide(request):
        logits, x = torch.from_numpy(request["logits"])[None], torch.tensor([request["tokens"]])
        masks = torch.zeros(x.shape, dtype=torch.bool)
        masks[0, request["masked"]] = True
        common = (logits, 0, "low_confidence", masks, x)
        if rule == "factor":
            x0, transfer = generate.get_transfer_index_dynamic(*common, None, settings["factor"])
        elif rule.startswith("threshold"):
            x0, transfer = generate.get_transfer_index(*common, None, settings["threshold"])
        else:
            x0, transfer = generate.get_transfer_index(*common, quotas[:, request["step"]])
        x[transfer] = x0[transfer]
        return x[0].tolist(), transfer[0].nonzero().flatten().tolist()

    return decide


if __name__ == "__main__":
    serve("Fast-dLLM", RULES, make)

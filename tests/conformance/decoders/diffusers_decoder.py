# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""BlockRefinementScheduler of diffusers 0.42.1, from where it is installed."""
import sys

import torch
from serving import serve

try:
    from diffusers import BlockRefinementScheduler, __version__
except ImportError as error:
    sys.exit(f"diffusers_decoder.py: diffusers cannot be imported: {error}; pip install diffusers==0.42.1")

# Both thresholds, to see which one it is.
RULES = ("threshold", "threshold_inclusive", "steps_per_block", "threshold_or_steps", "edit_committed")


def make(request):
    rule, settings, length = request["rule"], request["settings"], len(request["tokens"])
    scheduler = BlockRefinementScheduler()
    scheduler.set_timesteps(settings.get("steps", length), block_length=length)
    prompt = torch.zeros(length, dtype=torch.bool)
    prompt[request["fixed"]] = True
    post_steps, ended = 0, False

    def decide(request):  # as LLaDA2Pipeline does, which ends a block
        nonlocal post_steps, ended
        if ended:
            return request["tokens"], []
        post_steps += not request["masked"]
        before = torch.tensor([request["tokens"]])
        after = scheduler.step(
            torch.from_numpy(request["logits"])[None], request["step"], before, mask_token_id=request["mask_token"],
            threshold=2.0 if rule == "steps_per_block" else settings["threshold"],  # 2: none is above
            editing_threshold=settings.get("edit_threshold"), prompt_mask=prompt,
        )
        ended = not scheduler.check_block_should_continue(
            step_idx=0, masks_remaining=bool(request["masked"]), editing_enabled=settings.get("edit_threshold", 0) > 0,
            editing_transfer_index=after.editing_transfer_index, post_steps=post_steps,
            max_post_steps=settings.get("max_edits", 1) - 1, finished=torch.zeros(1, dtype=torch.bool),
        )
        transfers = (after.transfer_index | after.editing_transfer_index)[0]
        return after.prev_sample[0].tolist(), transfers.nonzero().flatten().tolist()

    return decide


if __name__ == "__main__":
    serve(f"diffusers {__version__}", RULES, make)

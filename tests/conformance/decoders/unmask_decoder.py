# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference decoder: each rule as a policy of this library, through the Python package."""
import numpy as np
import unmask
from serving import serve

POLICIES = {
    "threshold": "threshold({threshold})",
    "threshold_inclusive": "threshold({threshold}, inclusive=true)",
    "steps_per_block": "steps_per_block({steps})",
    "threshold_or_steps": "any_of(threshold({threshold}), steps_per_block({steps}))",
    "factor": "factor({factor}, accept_last=1)",
    "hierarchical": "hierarchical({low_threshold}, {threshold})",
    "trace_credit": "trace_credit({alpha}, {beta}, {gamma}) + threshold({threshold}, inclusive=true)",
    "edit_committed": "threshold({threshold}) + edit_committed({edit_threshold}) + edited_blocks({max_edits})",
    "timesteps": "by_{order} + timesteps({steps}, {epsilon})",
}


def make(request):
    settings = dict(request["settings"])
    if settings.get("threshold") is None:
        settings["threshold"] = 1  # no confidence is above
    suppress = request["settings"]["suppress_mask"] or request["rule"] == "edit_committed"  # never edits into a mask
    tokens = np.array(request["tokens"], dtype=np.int32)
    masked = np.zeros(len(tokens), dtype=bool)
    masked[request["masked"]] = True
    block = unmask.Block(
        POLICIES[request["rule"]].format(**settings), length=len(tokens), vocab=request["vocab"],
        mask_token=request["mask_token"], suppress_mask=suppress,
    )
    block.start(tokens, masked)

    def decide(request):
        if tokens.tolist() != request["tokens"]:
            raise RuntimeError(f"{request['case']}: step {request['step']} is not what the step before left")
        commits = [] if block.ended else block.step(request["logits"])
        changed = [p for p, t in enumerate(request["tokens"]) if tokens[p] != t]
        return tokens, sorted({c.position for c in commits} | set(changed))

    return decide


if __name__ == "__main__":
    serve(f"unmask {unmask.__version__}", POLICIES, make)

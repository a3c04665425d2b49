# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from sglang.srt.dllm.algorithm.unmask_policy import UnmaskPolicy
from sglang.srt.dllm.config import DllmConfig


class JointThreshold(UnmaskPolicy):
    """Commits above one threshold and edits above another, until the block has come to rest."""

    def __init__(self, config: DllmConfig):
        knobs = {
            "threshold": 0.5,
            "edit_threshold": 0,
            "max_post_edit_steps": 16,
            "penalty_lambda": 0,
            **config.algorithm_config,
        }
        super().__init__(
            config,
            "threshold({threshold}) + edit_committed({edit_threshold})"
            " + edited_blocks({max_post_edit_steps})".format(**knobs)
            + (" + neighbour_penalty({penalty_lambda})".format(**knobs) if knobs["penalty_lambda"] else ""),
        )
        self.edit_steps = knobs["max_post_edit_steps"]


Algorithm = JointThreshold

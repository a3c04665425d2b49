# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from sglang.srt.dllm.algorithm.unmask_policy import UnmaskPolicy
from sglang.srt.dllm.config import DllmConfig


class LowConfidence(UnmaskPolicy):
    """Commits tokens above a threshold, or else the surest one."""

    suppress_mask = False

    def __init__(self, config: DllmConfig):
        threshold = config.algorithm_config.get("threshold", 0.95)
        super().__init__(config, f"threshold({threshold})")


Algorithm = LowConfidence

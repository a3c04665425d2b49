# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For sglang/srt/dllm/algorithm/: any policy of unmask as a dLLM algorithm.

--dllm-algorithm UnmaskPolicy --dllm-algorithm-config with `policy: trace_credit + threshold(0.95)`.
"""
from typing import Any, List, Optional

import torch
import unmask
from sglang.srt.dllm.algorithm.base import DllmAlgorithm
from sglang.srt.dllm.config import DllmConfig
from sglang.srt.model_executor.forward_batch_info import ForwardBatch


class UnmaskPolicy(DllmAlgorithm):
    """Each block is decided by a policy that is named in the configuration."""

    # Lets the mask token be proposed, as the algorithms of SGLang do.
    suppress_mask = True

    def __init__(self, config: DllmConfig, policy: Optional[str] = None):
        super().__init__(config)
        self.policy = policy or config.algorithm_config["policy"]
        self.edit_steps = config.algorithm_config.get("max_post_edit_steps", 0)

    def max_steps(self, block_size: int) -> int:
        return block_size + self.edit_steps + 1

    def init_step_state(self, forward_batch: ForwardBatch) -> List[Any]:
        masked = ~self._prompt_mask(forward_batch)
        return [{"masked": row, "block": None} for row in masked]

    def step(
        self,
        forward_batch: ForwardBatch,
        full_logits: torch.Tensor,
        states: List[Any],
    ) -> List[bool]:
        input_ids = forward_batch.input_ids.view(-1, self.block_size)
        logits = full_logits.view(*input_ids.shape, -1)
        done = []
        for i, state in enumerate(states):
            if state["block"] is None:
                state["block"] = unmask.Block(
                    self.policy,
                    length=self.block_size,
                    vocab=logits.shape[-1],
                    mask_token=self.mask_id,
                    suppress_mask=self.suppress_mask,
                    stream=torch.cuda.current_stream().cuda_stream if logits.is_cuda else None,
                )
                state["block"].start(input_ids[i], state["masked"])
            written = state["block"].step(logits[i])
            # A forward that changed nothing has left the block's final K/V behind.
            done.append(state["block"].ended and not written)
        return done


Algorithm = UnmaskPolicy

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For dinfer/decoding/parallel_strategy.py: its decoders, decided by unmask.

Credit is kept for a block and a request, 520 bytes a position, and not as a second tensor of the
size of the logits.
"""
import unmask


class UnmaskParallelDecoder:
    """Any policy where dInfer takes a ParallelDecoder."""

    def __init__(self, policy, mask_id=126336, eos_id=126081):
        self.mask_id = mask_id
        self.eos_id = eos_id
        self._decide = unmask.Decider(policy, mask_token=mask_id, suppress_mask=False)

    def block_init(self, block_x, block_id):
        pass

    def decode(self, logits, block_start, block_end, x, iter_threshold=None):
        block = x[:, block_start:block_end]
        tokens, _ = self._decide(logits, block, block == self.mask_id)
        x[:, block_start:block_end] = tokens


class ThresholdParallelDecoder(UnmaskParallelDecoder):
    def __init__(self, threshold=0.9, rule="", **tokens):
        super().__init__(f"{rule}threshold({threshold}, inclusive=true)", **tokens)


class CreditThresholdParallelDecoder(ThresholdParallelDecoder):
    def __init__(self, credit_alpha=0.7, boost_gamma=0.2, decay_beta=0.8, **rest):
        credit = f"trace_credit({credit_alpha}, {decay_beta}, {boost_gamma}) + "
        super().__init__(rule=credit, **rest)


class HierarchyDecoder(UnmaskParallelDecoder):
    def __init__(self, low_threshold=0.4, threshold=None, **tokens):
        high = 1 if threshold is None else threshold
        super().__init__(f"hierarchical({low_threshold}, {high})", **tokens)

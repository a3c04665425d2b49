# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For dlmserve/denoise_loop.py: its denoising steps, decided by unmask.

install("trace_credit + threshold(0.9)", mask_id) takes the place of the top-k commit for every request
that the engine batches. A block that fills early ends early, as with LocalLeap.
"""
import dlmserve.denoise_loop
import dlmserve.engine
import unmask


def install(policy: str, mask_id: int) -> None:
    decide = unmask.Decider(policy, mask_token=mask_id, files=False)  # a server opens no file for a text
    plain_step_batch = dlmserve.denoise_loop.step_batch
    batch = []

    def step_batch(model, states, *rest, **options):
        batch[:] = states
        plain_step_batch(model, states, *rest, **options)
        for state in states:
            if state.done:
                decide.forget(id(state))

    def commit(x, logits, mask_index, k_per_row, block_end_abs, **_):
        for i, (state, end) in enumerate(zip(batch, block_end_abs.tolist())):
            block = (slice(i, i + 1), slice(end - state.block_length, end))
            x[block], _ = decide(logits[block], x[block], mask_index[block], keys=[id(state)])
        return x

    dlmserve.denoise_loop.commit_top_k_by_confidence = commit
    dlmserve.engine.step_batch = step_batch

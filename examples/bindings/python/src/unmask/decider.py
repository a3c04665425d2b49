# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Hashable, Optional, Sequence

from .block import Block

if TYPE_CHECKING:
    import numpy as np


class Decider:
    """Decides one step of a batch whose loop keeps tokens and masks itself.

        decide = unmask.Decider("trace_credit + threshold(0.9)", mask_token=M)
        ...
        x0, transfer = decide(logits, x, x == M)
        x[transfer] = x0[transfer]

    What a policy remembers of a request is kept while each mask is what the step before left masked,
    and starts afresh when it is another: with the next block, or another request. `keys` name the
    requests of a batch whose rows move; without them the row is the name. Options are those of
    Session, without vocab, length and window, which the logits have.
    """

    def __init__(self, policy: str, *, mask_token: int, **options: Any) -> None:
        for name in ("vocab", "length", "window"):
            if name in options:
                raise ValueError(f"Decider() takes {name} from the shape of the logits, got {options[name]!r}: leave it out")
        self._policy = policy
        self._options = dict(options, mask_token=mask_token)
        self._held: dict[Hashable, _Held] = {}

    def __call__(
        self,
        logits: Any,
        tokens: Any,
        mask: Any,
        *,
        allowed: Any = None,
        keys: Optional[Sequence[Hashable]] = None,
    ) -> tuple[Any, Any]:
        """Logits [batch, length, vocab], tokens and mask [batch, length].

        Returns new tokens and which of them were written, as tensors of the kind of `tokens`.
        """
        import numpy as np  # here: a program may set the threads of NumPy before

        x0 = _on_host(tokens).astype(np.int64)
        masks = _on_host(mask)
        transfer = np.zeros(x0.shape, dtype=bool)
        for row, key in enumerate(range(len(x0)) if keys is None else keys):
            held = self._of(key, masks[row], logits[row].shape)
            same = np.array_equal(held.masked, masks[row])
            if not same or (held.block.ended and held.masked.any()):
                held.start(tokens[row], masks[row])
            for commit in held.block.step(
                logits[row], allowed=None if allowed is None else allowed[row]
            ):
                x0[row, commit.position] = commit.token
                transfer[row, commit.position] = True
                held.masked[commit.position] = commit.token == self._options["mask_token"]
        return _like(x0, tokens), _like(transfer, tokens)

    def forget(self, key: Hashable) -> None:
        """Drops what is remembered of a request."""
        self._held.pop(key, None)

    def _of(self, key: Hashable, mask: np.ndarray, shape: Sequence[int]) -> _Held:
        held = self._held.get(key)
        if held is None or held.shape != tuple(shape):
            block = Block(self._policy, length=shape[0], vocab=shape[1], **self._options)
            held = self._held[key] = _Held(block, tuple(shape))
        return held


class _Held:
    """A block and which of its positions its last step left masked."""

    def __init__(self, block: Block, shape: tuple[int, ...]) -> None:
        self.block = block
        self.shape = shape
        self.masked = _on_host([False] * shape[0])

    def start(self, tokens: Any, mask: np.ndarray) -> None:
        self.masked = mask.copy()
        self.block.start(tokens.clone() if hasattr(tokens, "clone") else tokens.copy(), mask)


def _on_host(tensor: Any) -> np.ndarray:
    import numpy as np

    return np.asarray(tensor.cpu() if hasattr(tensor, "cpu") else tensor)


def _like(array: np.ndarray, tokens: Any) -> Any:
    """The array as a tensor of the framework that `tokens` is of."""
    if isinstance(tokens, type(array)):
        return array
    import torch

    return torch.from_numpy(array).to(tokens.device)

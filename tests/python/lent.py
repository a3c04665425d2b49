# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments that a caller may forget behind a call are overwritten there."""


class LentSession:
    """A session whose calls get copies of their arrays, which are overwritten behind the call; the
    tokens of a sequence behind its end. `tokens` has those of running sequences, by slot, and
    `answers` the others."""

    def __init__(self, session):
        self.session = session
        self.tokens, self.answers = {}, {}

    def start(self, slot, tokens, *, editable=None, **options):
        tokens = tokens.copy()
        editable = None if editable is None else editable.copy()
        self.session.start(slot, tokens, editable=editable, **options)
        if editable is not None:
            editable[:] = ~editable
        self.tokens[slot] = tokens
        self._forget()

    def supply(self, logits):
        logits = logits.copy()
        try:
            self.session.supply(logits)
        finally:
            logits.fill(float("nan"))
            self._forget()

    def cancel(self, slot):
        self.session.cancel(slot)
        self._forget()

    def _forget(self):
        for slot in [s for s in self.tokens if self.session.report(s).end.name != "running"]:
            self.answers[slot] = self.tokens[slot].copy()
            self.tokens.pop(slot).fill(-7)

    def __getattr__(self, name):
        return getattr(self.session, name)

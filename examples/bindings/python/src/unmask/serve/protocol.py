# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What uvicorn leaves out: a limit on the time of headers."""
from __future__ import annotations

import asyncio
from typing import Any


def http_protocol(headers: float = 10.0) -> Any:
    """A protocol for uvicorn's option `http` that closes connections whose headers take longer than `headers` seconds."""
    from uvicorn.protocols.http.h11_impl import H11Protocol  # it refuses headers of more than 64 KiB

    class Protocol(H11Protocol):
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._late = self.loop.call_later(headers, self._close)

        def data_received(self, data: bytes) -> None:
            if self._late is None and not self._answers():  # of the next request
                self._late = self.loop.call_later(headers, self._close)
            super().data_received(data)
            if self._late is not None and self._answers():
                self._stop()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _answers(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _stop(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _close(self) -> None:
            self._late = None
            if not self.transport.is_closing():
                self.transport.close()

    return Protocol

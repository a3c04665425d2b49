# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server that speaks OpenAI's protocol: python -m unmask serve --model tiny

It needs `pip install "./examples/bindings/python[server]"`. Programs make a Server of any object with the protocol Model and
run its `app` under an ASGI server:

    from unmask.serve import Server, Tiny, http_protocol

    uvicorn.run(Server(Tiny()).app, host="127.0.0.1", port=8000, http=http_protocol())

http_protocol() closes connections whose headers do not arrive in time, which uvicorn's own keeps for ever.
"""
from .app import DEFAULT_POLICY, Limits, Server
from .models import GivenUp, Model, Tiny, load
from .protocol import http_protocol

__all__ = ["DEFAULT_POLICY", "GivenUp", "Limits", "Model", "Server", "Tiny", "http_protocol", "load"]

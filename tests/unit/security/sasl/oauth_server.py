"""An OAuth server in this process."""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import Any

import httpx

from aiokafkapy.security.sasl.oidc import TokenEndpoint
from aiokafkapy.security.sasl.options import SaslOptions
from tests.unit.virtual_time import elapsed

__all__ = ["Server", "answer"]


class Server:
    """Answers with each of ``answers`` in turn, and with the last forever; keeps its requests."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, content=answer.content)

    @property
    def form(self) -> dict[str, str]:
        return dict(urllib.parse.parse_qsl(self.requests[-1].content.decode()))

    def endpoint(self, options: SaslOptions) -> TokenEndpoint:
        """A client of this server, in the time of the running loop."""
        return TokenEndpoint(
            options,
            transport=httpx.MockTransport(self),
            sleep=elapsed,
            monotonic=asyncio.get_running_loop().time,
        )


def answer(**fields: Any) -> httpx.Response:
    return httpx.Response(200, json={"access_token": "abc", "token_type": "Bearer", "expires_in": 300} | fields)

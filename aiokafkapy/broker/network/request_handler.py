"""The KafkaRequestHandlers: take a request off the queue, find its handler, and see that the answer goes back.

Owns decoding, dispatch by API key, the answer to an exception, and the faults of whole requests. It must not know any
API's meaning nor a socket; ``response_sender`` has the way back. Kafka's counterparts are ``KafkaRequestHandlerPool``
and the outer half of ``KafkaApis``.

Rules:

- an unknown API key, a version that is not served, or a body that does not parse closes the connection; only
  ApiVersions of an unknown version is answered, in version 0 with UNSUPPORTED_VERSION and those served (KIP-511), or
  as the emulated broker does;
- where a listener has SASL, a request that may not come before the client is authenticated, or after its session is
  over, closes the connection; so does a refusal, when its answer is out, both after a delay;
- any exception of a handler becomes that API's own error response: a KafkaError its code, another one
  UNKNOWN_SERVER_ERROR and a line in the log;
- a handler that returned a future is done with; the response goes out when the future resolves, and a cancelled
  future closes the connection;
- faults are applied in this order: counted, ``on_request``, ``drop_next(after=False)``, ``fail_next``, the handler,
  ``fail_next(after_append=True)``, ``drop_next(after=True)``, ``throttle``, ``delay``.

Events: ``broker.malformed_request``, ``broker.unsupported_request`` and ``broker.authentication_failed`` (warnings,
mistakes of a client, about ten lines a minute), ``broker.handler_failed``, ``broker.unwritable_response`` and
``broker.request_failed`` (errors, bugs of ours).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from ...errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    MalformedFrameError,
    UnknownServerError,
)
from ...observability import RateLimitedLogger, get_logger
from ...protocol.api import ApiKey
from ...protocol.codec import RequestHeader, decode_request_body, decode_request_header, encode_response
from ...protocol.writer import PlainMessage
from ..context import BrokerState, ConnectionInfo, RequestContext
from ..faults.armed_faults import broker_error
from ..handlers.api_versions import unsupported_version_response
from ..handlers.dispatch_table import dispatch_table
from ..handlers.registry import CLOSE_CONNECTION, NO_RESPONSE, Answer, Body, FinalAnswer, Handler, Response, served
from .request_channel import Request, RequestChannel, ResponseAction
from .response_sender import ResponseSender

__all__ = ["KafkaRequestHandlerPool"]

logger = get_logger(__name__)


class KafkaRequestHandlerPool:
    """The handlers of one node: M tasks that share the request queue."""

    def __init__(self, node_id: int, state: BrokerState, request_channel: RequestChannel) -> None:
        self.responses = ResponseSender(node_id, state)
        self._node_id = node_id
        self._state = state
        self._channel = request_channel
        self._handlers: Mapping[int, Handler] | None = None
        self._client_errors = RateLimitedLogger(logger)
        self._tasks: list[asyncio.Task[None]] = []

    def _load_handlers(self) -> Mapping[int, Handler]:
        """The handlers' modules are loaded with the first request: they are most of the broker."""
        self._handlers = served(dispatch_table(), self._state.emulation)
        return self._handlers

    def start(self) -> None:
        """Start the tasks."""
        self._tasks = [
            asyncio.create_task(self._run(), name=f"kafka-request-handler-{self._node_id}-{number}")
            for number in range(self._state.config.num_io_threads)
        ]

    def stop(self) -> None:
        """End the tasks, and cancel all parked requests and delayed responses."""
        for task in self._tasks:
            task.cancel()
        self.responses.stop()

    @property
    def is_stopped(self) -> bool:
        """Whether every task has ended."""
        return all(task.done() for task in self._tasks)

    async def wait_stopped(self) -> None:
        """Return when every task has ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def handle(self, request: Request) -> None:
        """Answer one request, now or by parking it. Raises nothing: an error concerns its connection only."""
        request.dequeued = time.monotonic()
        session = request.connection.info.session
        if session is not None and session.takes_tokens:
            self._handle_token(request)
            return
        try:
            header, position = decode_request_header(request.buffer)
            request.api_key, request.header = header.api_key, header
            if session is not None:
                session.admit(header.api_key, self._state.now())
            self._state.faults.count_request(self._node_id, header.api_key)
            handlers = self._handlers or self._load_handlers()
            handler = handlers.get(header.api_key)
            if handler is None or not handler.supports(header.api_version):
                self._refuse(request, header, handler)
                return
            body = decode_request_body(header, request.buffer, position)
        except MalformedFrameError as error:
            self._warn("broker.malformed_request", error=str(error))
            self.responses.send(request, ResponseAction.CLOSE)
            return
        except IllegalSaslStateError as error:
            self._close_unauthenticated(request, error)
            return
        context = RequestContext(self._node_id, header, request.connection.info, self._state)
        _Exchange(self.responses, request, context, handler, body, self._log_refusal).run()

    # internals

    async def _run(self) -> None:
        while True:
            request = await self._channel.receive_request()
            with self.responses.closing_on_error(request):
                self.handle(request)
            if len(self._channel):
                # receive_request does not wait while there is something: others must get their turn of the loop.
                await asyncio.sleep(0)

    def _handle_token(self, request: Request) -> None:
        state = self._state
        try:
            answer, _ = request.connection.info.authenticate(request.buffer, state.now(), state.timestamp_ms())
        except AuthenticationFailedError as error:
            self._close_unauthenticated(request, error)  # a bare token has no answer that could carry the refusal
            return
        self.responses.send(request, ResponseAction.SEND, len(answer).to_bytes(4, "big") + answer)

    def _close_unauthenticated(self, request: Request, error: KafkaError) -> None:
        info = request.connection.info
        self._log_refusal(info, error)
        delay = 0.0 if info.session is None else info.session.failure_delay
        self.responses.send(request, ResponseAction.CLOSE, delay=delay)

    def _log_refusal(self, info: ConnectionInfo, error: BaseException) -> None:
        self._warn("broker.authentication_failed", listener=info.listener, remote=info.connection_id, error=str(error))

    def _refuse(self, request: Request, header: RequestHeader, handler: Handler | None) -> None:
        if handler is not None and header.api_key == ApiKey.API_VERSIONS:
            body = unsupported_version_response(self._state, header.api_version)
            if body is not None:
                request.answer = body
                self.responses.send(request, ResponseAction.SEND, encode_response(body, header.correlation_id))
                return
        emulation = self._state.emulation
        self._warn(
            "broker.unsupported_request",
            api_key=header.api_key,
            api_version=header.api_version,
            client_id=header.client_id,
            served="none" if handler is None else f"{handler.min_version}-{handler.max_version}",
            emulates="" if emulation is None else emulation.name,
        )
        self.responses.send(request, ResponseAction.CLOSE)

    def _warn(self, event: str, **fields: object) -> None:
        self._client_errors.log(event, self._state.now(), logging.WARNING, event, node_id=self._node_id, **fields)


@dataclasses.dataclass(slots=True)
class _Exchange:
    """One request on its way through faults and handler to its response."""

    responses: ResponseSender
    request: Request
    context: RequestContext
    handler: Handler
    body: Body
    log_refusal: Callable[[ConnectionInfo, BaseException], None]

    def run(self) -> None:
        """Dispatch, and finish now or when the handler's future resolves."""
        answer = self._dispatch()
        self.request.handled = time.monotonic()
        if isinstance(answer, asyncio.Future):
            self.responses.park(self.request, answer, self._on_answered)
        else:
            self._finish(answer)

    # asyncio callbacks

    def _on_answered(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            self._finish(CLOSE_CONNECTION)
        else:
            error = future.exception()
            self._finish(future.result() if error is None else self._error_response(error))

    # internals

    def _dispatch(self) -> Answer:
        faults = self.context.state.faults
        try:
            answer: Answer | None = faults.intercept(self.context, self.body)
            if answer is not None:
                return answer
            if faults.take_drop(self.context, after=False):
                return CLOSE_CONNECTION
            code = faults.request_error(self.context)
            if code:
                raise broker_error(code)
            return self.handler.handle(self.context, self.body)
        except Exception as error:  # a handler's exception is the answer to this one request
            session = self.context.connection.session
            if session is not None and session.is_failed:
                self.log_refusal(self.context.connection, error)
            return self._error_response(error)

    def _finish(self, answer: FinalAnswer) -> None:
        faults = self.context.state.faults
        self.request.answered = time.monotonic()
        code = faults.request_error(self.context, after=True)
        if code:
            answer = self._error_response(broker_error(code))
        if faults.take_drop(self.context, after=True):
            answer = CLOSE_CONNECTION
        self.request.answer = answer
        delay = faults.delay_of(self.context)
        if answer is CLOSE_CONNECTION:
            self.responses.send(self.request, ResponseAction.CLOSE, delay=delay)
        elif answer is NO_RESPONSE:
            throttle = self.responses.throttle_time(self.context, self.request, 0)
            self.responses.send(self.request, ResponseAction.NO_OPERATION, throttle=throttle, delay=delay)
        else:
            self._send(answer, delay)

    def _send(self, answer: Response, delay: float) -> None:
        try:
            buffer = encode_response(answer, self.context.header.correlation_id)
            throttle = self.responses.throttle_time(self.context, self.request, len(buffer))
            if throttle > 0:
                buffer = encode_response(_throttled(answer, round(throttle * 1000)), self.context.header.correlation_id)
        except Exception as error:  # a response that cannot be written: a mistake of the handler
            logger.error("broker.unwritable_response", exc_info=error, **self._names())
            self.responses.send(self.request, ResponseAction.CLOSE, delay=delay)
            return
        session = self.context.connection.session
        if session is not None and session.is_failed:
            self.responses.send(
                self.request, ResponseAction.SEND_AND_CLOSE, buffer, delay=delay + session.failure_delay
            )
            return
        self.responses.send(self.request, ResponseAction.SEND, buffer, throttle, delay)

    def _error_response(self, error: BaseException) -> FinalAnswer:
        if not isinstance(error, KafkaError):
            logger.error("broker.handler_failed", exc_info=error, **self._names())
            error = UnknownServerError(f"{type(error).__name__}: {error}")
        elif error.code is None:
            error = UnknownServerError(str(error))
        try:
            return self.handler.error(self.context, self.body, error)
        except Exception as failure:  # the same of an error response
            logger.error("broker.unwritable_response", exc_info=failure, **self._names())
            return CLOSE_CONNECTION

    def _names(self) -> dict[str, int]:
        header = self.context.header
        return {"node_id": self.context.node_id, "api_key": header.api_key, "api_version": header.api_version}


def _throttled(answer: Response, throttle_time_ms: int) -> Response:
    if isinstance(answer, PlainMessage):
        return answer.throttled(throttle_time_ms)
    if not hasattr(answer, "throttle_time"):
        return answer
    return dataclasses.replace(answer, throttle_time=timedelta(milliseconds=throttle_time_ms))

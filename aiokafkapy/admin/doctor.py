"""Checks a cluster step by step, in the order in which a client connects to it, and reports the result of each step.

Owns the order of the steps and their requests; the texts are in ``diagnosis``, those of failed TLS
handshakes in ``security.handshake_errors``. Kafka has no counterpart: its clients keep retrying.

Steps: for each bootstrap address DNS, TCP, TLS, SASL and ApiVersions; from the first that answers the brokers and the
controller; each broker at the address that it advertises; then, if one is named, a topic and our rights on it.

Rules:

- Nothing is written and nothing is made: no record, no topic.
- A step that fails ends its address, not the check-up. Every step is bounded by ``step_timeout``, and all of it by the
  time-out of ``examine``: it always returns, with the findings until then.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, NoReturn

from ..client.config import ClientConfig
from ..client.network_client import NetworkClient
from ..client.network_client_utils import unless_refused
from ..client.nodes.api_versions import NodeApiVersions, build_api_versions_request
from ..client.nodes.connection_states import Address
from ..client.transport.dialers import Dialer, new_dialer
from ..client.transport.listener_probe import speaks_plaintext
from ..cluster.metadata import Metadata
from ..common import MAX_TOPIC_NAME_LENGTH, Node, counted, format_address
from ..errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    DisconnectedError,
    InvalidTopicError,
    KafkaConnectionError,
    KafkaError,
    SslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    make,
)
from ..protocol.api import ApiKey
from ..protocol.codec import Message, Struct
from ..protocol.messages import build_request
from ..security.handshake_errors import explain_failure, is_silent_end
from ..worker_thread import run_in_thread
from .cluster_nodes import active_controller, nodes_of
from .diagnosis import (
    Finding,
    Verdict,
    advertised_finding,
    certificate_finding,
    is_loopback,
    rights_finding,
    topic_finding,
    version_finding,
)
from .topics import description_of

__all__ = ["Doctor"]

_ATTEMPTS: Final = 2
"""A listener of the wrong kind is recognized at the second connection: the first is only closed."""
_ROUND_TRIPS: Final = 3
_AT_ONCE: Final = 16
"""Brokers that are visited at a time."""


class Doctor:
    """``findings = await Doctor(ClientConfig(...), topic="orders").examine(timeout=10)``.

    ``tell`` is called with each finding as it is made; ``clock`` is wall time in seconds. ``step_timeout`` bounds one
    name look-up, one connection, one answer, in seconds.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        topic: str | None = None,
        tell: Callable[[Finding], object] = lambda finding: None,
        step_timeout: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self.topic = topic
        self.findings: list[Finding] = []
        self._tell = tell
        self._step_timeout = step_timeout
        self._clock = clock
        self._step = "beginning"

    @property
    def is_healthy(self) -> bool:
        """True when nothing failed; warnings are no failure."""
        return all(finding.verdict is not Verdict.FAILED for finding in self.findings)

    async def examine(self, timeout: float = 30.0) -> list[Finding]:
        """Look at everything; returns the findings, within ``timeout`` seconds. Raises nothing that a cluster causes;
        may be cancelled, and leaves no connection.
        """
        self.findings = []
        try:
            async with asyncio.timeout(timeout):
                await self._examine()
        except TimeoutError:
            text = f"not done within {timeout:g} s; the last step was: {self._step}"
            self._note(Finding("time", "", Verdict.FAILED, text, "give it more time, or look at that step first"))
        return self.findings

    # internals: the steps

    async def _examine(self) -> None:
        reached: dict[tuple[str, int], _Visit] = {}
        for host, port in self.config.bootstrap_addresses:
            reached[host, port] = await self._visit(host, port, self._note)
        entry = next((place for place, visit in reached.items() if visit.failure is None), None)
        if entry is None:
            return
        async with self._link(*entry) as link:
            body = await self._metadata(link)
            if body is None:
                return
            await self._look_at_brokers(body, reached)
            if self.topic is not None:
                self._look_at_topic(body, self.topic)

    async def _metadata(self, link: _Link) -> Struct | None:
        """The cluster as the first broker sees it, with the topic and our rights on it; None after a failure."""
        address = link.node.address
        self._step = f"asking {address} for the cluster"
        topics = [] if self.topic is None else [{"name": self.topic, "topic_id": None}]

        def build(version: int) -> Message:
            return build_request(
                ApiKey.METADATA,
                version,
                topics=topics,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=True,
            )

        try:
            body: Struct = await self._ask(link, ApiKey.METADATA, build)
        except KafkaError as error:
            self._note(Finding("metadata", address, Verdict.FAILED, str(error), "see the broker's log"))
            return None
        brokers: dict[int, str] = {one.node_id: format_address(one.host, one.port) for one in body.brokers}
        facts: dict[str, object] = {
            "cluster_id": getattr(body, "cluster_id", None),
            "controller_id": None,
            "brokers": {str(node_id): place for node_id, place in brokers.items()},
        }
        text = f"cluster {facts['cluster_id']} has {counted(len(brokers), 'broker')}: " + ", ".join(
            f"{node_id} at {place}" for node_id, place in sorted(brokers.items())
        )
        self._step = f"asking {address} for the controller"
        self._note(await self._with_controller(link, body, Finding("metadata", address, Verdict.OK, text, facts=facts)))
        return body

    async def _with_controller(self, link: _Link, body: Struct, found: Finding) -> Finding:
        """The finding about the cluster that answered ``body``, with its controller."""
        try:
            controller = await active_controller(partial(self._ask, link), body)
        except ClusterAuthorizationFailedError:
            return replace(found, text=f"{found.text}; to see its controller takes the right to describe the cluster")
        except KafkaError as error:
            reason = f"no controller: {error}"
        else:
            if controller is not None:
                place = "" if controller.node_id in nodes_of(body) else ", no broker"
                facts = {**found.facts, "controller_id": controller.node_id}
                return replace(found, text=f"{found.text}; controller: {controller.node_id}{place}", facts=facts)
            reason = "no controller"
        advice = "topics can neither be made nor changed; with KRaft see the controllers' quorum"
        return replace(found, verdict=Verdict.WARNING, text=f"{found.text}; {reason}", advice=advice)

    async def _look_at_brokers(self, body: Struct, reached: dict[tuple[str, int], _Visit]) -> None:
        """Visit each broker at its advertised address; one that was reached there already is not visited again."""
        self._step = "visiting the brokers"
        limit = asyncio.Semaphore(_AT_ONCE)
        brokers = sorted(body.brokers, key=lambda one: int(one.node_id))

        async def visit(broker: Struct) -> _Visit:
            known = reached.get((str(broker.host), int(broker.port)))
            if known is not None:
                return known
            async with limit:
                return await self._visit(broker.host, broker.port)

        is_remote = not any(visit.is_here for visit in reached.values())
        is_direct = self.config.proxy_url is None and self.config.connector is None
        async with asyncio.TaskGroup() as group:
            visits = [group.create_task(visit(broker)) for broker in brokers]
        for broker, found in zip(brokers, (task.result() for task in visits), strict=True):
            address = format_address(broker.host, broker.port)
            is_odd = is_direct and is_remote and is_loopback(broker.host)
            self._note(
                advertised_finding(broker.node_id, address, found.failure, found.round_trip_ms, is_odd_loopback=is_odd)
            )

    def _look_at_topic(self, body: Struct, name: str) -> None:
        for topic in body.topics:
            if topic.error_code:
                error = make(topic.error_code, None, topic=name)
                self._note(
                    Finding("topic", name, Verdict.FAILED, str(error), _TOPIC_ADVICE.get(topic.error_code, _SEE_LOG))
                )
                return
            found = description_of(topic)
            self._note(topic_finding(name, found.partitions, [one.node_id for one in body.brokers]))
            self._note(rights_finding(name, getattr(topic, "topic_authorized_operations", None)))

    # internals: one address

    async def _visit(self, host: str, port: int, tell: Callable[[Finding], object] = lambda finding: None) -> _Visit:
        """DNS, TCP, TLS, SASL and ApiVersions at one address, up to the step that fails; ``tell`` gets each finding at
        once.
        """
        visit = _Visit(format_address(host, port), tell)
        self._step = f"looking at {visit.address}"
        dialer = new_dialer(self.config, asyncio.get_running_loop())
        addresses = await self._resolve(dialer, host, port, visit)
        connected = await self._connect(dialer, addresses, visit) if addresses else None
        if connected is None or not await self._check_tls(dialer, connected, host, port, visit):
            return visit
        await self._meet_broker(host, port, visit)
        return visit

    async def _resolve(self, dialer: Dialer, host: str, port: int, visit: _Visit) -> list[Address]:
        try:
            async with asyncio.timeout(self._step_timeout):
                addresses: list[Address] = await dialer.addresses(host, port)
        except (OSError, ValueError) as error:
            words = self._words(error)
            advice = "is the name right? If it is one of a container's or a private network's, it exists only there"
            visit.failed("dns", f"{host} cannot be resolved: {words}", advice)
            return []
        numeric = list(dict.fromkeys(str(address[0]) for _, address in addresses))
        visit.is_here = any(map(is_loopback, numeric))
        if self.config.proxy_url is not None or self.config.connector is not None:
            visit.ok("dns", "left to the proxy or connector", {"addresses": []})
        else:
            visit.ok("dns", f"{host} is {', '.join(numeric)}", {"addresses": numeric})
        return addresses

    async def _connect(self, dialer: Dialer, addresses: list[Address], visit: _Visit) -> Address | None:
        """The first address that accepts; all are tried, so that a dead one is noticed."""
        times, failures = {}, {}
        first = None
        for address in addresses:
            begun = time.perf_counter()
            try:
                async with asyncio.timeout(self._step_timeout):
                    (await dialer.open(address)).close()
            except OSError as error:
                failures[format_address(*address[1][:2])] = self._words(error)
            else:
                times[format_address(*address[1][:2])] = _ms(begun)
                first = address if first is None else first
        facts = {"connect_ms": times, "failures": failures}
        refused = "; ".join(f"{place}: {words}" for place, words in failures.items())
        if not times:
            advice = "is a broker listening there? Look at its listeners, the port, and firewalls on the way"
            visit.failed("tcp", f"no connection: {refused}", advice, facts)
            return None
        text = "connected in " + ", ".join(f"{taken:g} ms ({place})" for place, taken in times.items())
        if failures:
            # localhost has two addresses, and a broker often listens at one of them only: clients go on to the next at
            # once.
            text += f"; not at {refused}"
        visit.ok("tcp", text, facts)
        return first

    async def _check_tls(self, dialer: Dialer, address: Address, host: str, port: int, visit: _Visit) -> bool:
        """Do a handshake and look at the certificate; True when nothing speaks against going on."""
        contexts = self.config.new_tls_contexts()
        if contexts is None:
            return True
        loop, peer_name = asyncio.get_running_loop(), host
        try:
            async with asyncio.timeout(self._step_timeout):
                peer_name = await dialer.peer_name(host, address)
                context = await run_in_thread(loop, contexts.context)
                sock = await dialer.open(address)
                try:
                    _, writer = await asyncio.open_connection(sock=sock, ssl=context, server_hostname=peer_name)
                except BaseException:
                    sock.close()
                    raise
        except (OSError, EOFError, ValueError) as error:
            is_plaintext = is_silent_end(error) and await speaks_plaintext(loop, dialer, address)
            explained = explain_failure(error, peer_name, port, is_plaintext=is_plaintext)
            visit.failed("tls", str(explained), "")
            return False
        session: ssl.SSLObject = writer.get_extra_info("ssl_object")
        cipher = session.cipher()
        visit.add(
            certificate_finding(
                visit.address, session.getpeercert(), f"{session.version()}", f"{cipher and cipher[0]}", self._clock()
            )
        )
        writer.transport.abort()
        return True

    async def _meet_broker(self, host: str, port: int, visit: _Visit) -> None:
        """Connect as a client does, with credentials if there are any, and measure how quickly the broker answers."""
        try:
            async with self._link(host, port) as link:
                versions, visit.round_trip_ms = await self._round_trip(link)
        except KafkaError as error:
            step = self._step_of(error)
            visit.failed(step, str(error), _NO_BROKER if step == "versions" else "")
            return
        if self.config.uses_sasl:
            mechanism = self.config.sasl_mechanism
            visit.ok("sasl", f"let in with {mechanism}", {"mechanism": mechanism})
        visit.add(version_finding(visit.address, versions, visit.round_trip_ms))

    async def _round_trip(self, link: _Link) -> tuple[NodeApiVersions, float]:
        """The broker's versions, and the quickest of some round trips in milliseconds."""
        best = float("inf")
        for _ in range(1 + _ROUND_TRIPS):  # the first waits for the connection too
            begun = time.perf_counter()
            await self._ask(link, ApiKey.API_VERSIONS, build_api_versions_request)
            best = min(best, _ms(begun))
        versions = link.client.nodes.api_versions.get(link.node.node_id)
        if versions is None:
            raise DisconnectedError("the connection was closed after it was answered")
        return versions, best

    def _step_of(self, error: KafkaError) -> str:
        """The step in which a connection ended with this error."""
        if isinstance(error, SslAuthenticationFailedError):
            return "tls"
        if isinstance(error, AuthenticationFailedError) or self.config.uses_sasl:
            return "sasl"
        return "versions"

    # internals: requests

    @asynccontextmanager
    async def _link(self, host: str, port: int) -> AsyncIterator[_Link]:
        """A client that knows of this address only."""
        metadata = Metadata.of(self.config)
        metadata.bootstrap([(host, port)])
        client = NetworkClient(self.config, metadata, loop=asyncio.get_running_loop())
        try:
            yield _Link(client, metadata.bootstrap_nodes[0], metadata)
        finally:
            await client.close()

    async def _ask(self, link: _Link, api_key: ApiKey, build: Callable[[int], Message]) -> Struct:
        """An answer of this node; raises the reason as soon as it is known, and not when a client would give up."""
        for attempt in range(1, _ATTEMPTS + 1):
            answer = link.client.send_and_wait(api_key, build, link.node, self._step_timeout)
            try:
                return await unless_refused(answer, _refusal(link))
            except DisconnectedError:
                if attempt == _ATTEMPTS:
                    raise
        raise DisconnectedError("no attempt was made")

    def _note(self, finding: Finding) -> None:
        self.findings.append(finding)
        self._tell(finding)

    def _words(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError) and not str(error):
            return f"no answer within {self._step_timeout:g} s"
        return getattr(error, "strerror", None) or str(error) or type(error).__name__


_SEE_LOG: Final = "see the broker's log"
_NO_BROKER: Final = "is it a Kafka broker that listens there, and does security_protocol say how?"
# by Kafka's error codes
_TOPIC_ADVICE: Final[Mapping[int | None, str]] = {
    UnknownTopicOrPartitionError.code: (
        "create it: aiokafkapy topics create TOPIC --partitions N; or let the broker do it (auto.create.topics.enable)"
    ),
    InvalidTopicError.code: (
        f"a topic's name has letters, digits, dots, dashes and underscores, at most {MAX_TOPIC_NAME_LENGTH}"
    ),
    TopicAuthorizationFailedError.code: (
        "give this user the right: kafka-acls --add --allow-principal User:NAME --operation Describe --operation Write"
    ),
}


class _Visit:
    """The findings at one address."""

    def __init__(self, address: str, tell: Callable[[Finding], object]) -> None:
        self.address = address
        self._tell = tell
        self.is_here = False  # at an address of this machine
        self.failure: Finding | None = None
        self.round_trip_ms: float | None = None

    def ok(self, check: str, text: str, facts: dict[str, object]) -> None:
        self.add(Finding(check, self.address, Verdict.OK, text, facts=facts))

    def failed(self, check: str, text: str, advice: str, facts: dict[str, object] | None = None) -> None:
        self.add(Finding(check, self.address, Verdict.FAILED, text, advice, facts or {}))

    def add(self, finding: Finding) -> None:
        if finding.verdict is Verdict.FAILED:
            self.failure = finding
        self._tell(finding)


class _Link(NamedTuple):
    """A client, and the one address that it knows of."""

    client: NetworkClient
    node: Node
    metadata: Metadata


async def _refusal(link: _Link) -> NoReturn:
    """Raises the reason why the node, or the way to it, refuses us once that is sure."""
    while True:
        state = link.client.nodes.states.get(link.node.node_id)
        if state is not None and state.authentication_error is not None:
            raise state.authentication_error.fresh()
        if state is not None and state.is_disconnected and state.failed_attempts >= _ATTEMPTS:
            raise KafkaConnectionError(link.metadata.describe_failure())
        await link.client.wait_for_change()


def _ms(begun: float) -> float:
    return round((time.perf_counter() - begun) * 1000, 2)

"""Other people's clients against listeners with TLS and SASL, each as a process: ``python <this> <name> <settings>``.

The settings are JSON: servers, topic, protocol; ca, certificate; mechanism, user, password, token. Each program writes
ten records, reads them as a member of a group, and prints them; ``..._acls`` make, list and remove ACLs.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from typing import Any

TIMEOUT = 30.0
COUNT = 10


def confluent_options(settings: dict[str, Any]) -> dict[str, Any]:
    """librdkafka's names."""
    options: dict[str, Any] = {
        "bootstrap.servers": settings["servers"],
        "security.protocol": settings["protocol"],
        "ssl.ca.location": settings.get("ca"),
        "ssl.certificate.location": settings.get("certificate"),
        "ssl.key.location": settings.get("certificate"),
        "sasl.mechanism": settings.get("mechanism"),
        "sasl.username": settings.get("user"),
        "sasl.password": settings.get("password"),
    }
    if "token" in settings:
        options["oauth_cb"] = lambda _: (settings["token"], time.time() + 600)
    return {name: value for name, value in options.items() if value is not None}


def confluent(settings: dict[str, Any]) -> Any:
    """librdkafka."""
    from confluent_kafka import Consumer, Producer

    errors: list[str] = []
    options = confluent_options(settings)
    producer = Producer({**options, "message.timeout.ms": 20_000, "error_cb": lambda error: errors.append(str(error))})
    for number in range(COUNT):
        producer.produce(
            settings["topic"],
            value=str(number),
            on_delivery=lambda error, _: errors.append(str(error)) if error is not None else None,
        )
    producer.flush(TIMEOUT)
    if errors:
        return {"errors": errors[:5]}
    consumer = Consumer({**options, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe([settings["topic"]])
    values: list[str] = []
    end = time.monotonic() + TIMEOUT
    while len(values) < COUNT and time.monotonic() < end:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            values.append(value.decode())
        elif message is not None:
            errors.append(str(message.error()))
    consumer.commit(asynchronous=False)
    consumer.close()
    return {"values": values, "errors": errors[:5]}


def kafka_python_options(settings: dict[str, Any]) -> dict[str, Any]:
    """kafka-python's names."""
    options: dict[str, Any] = {
        "bootstrap_servers": settings["servers"],
        "security_protocol": settings["protocol"],
        "ssl_cafile": settings.get("ca"),
        "ssl_certfile": settings.get("certificate"),
        "sasl_mechanism": settings.get("mechanism"),
        "sasl_plain_username": settings.get("user"),
        "sasl_plain_password": settings.get("password"),
    }
    if "token" in settings:
        from kafka.net.sasl.oauth import AbstractTokenProvider

        class Provider(AbstractTokenProvider):  # type: ignore[misc]
            def token(self) -> str:
                return str(settings["token"])

        options["sasl_oauth_token_provider"] = Provider()
    return {name: value for name, value in options.items() if value is not None}


def kafka_python(settings: dict[str, Any]) -> Any:
    """kafka-python."""
    from kafka import KafkaConsumer, KafkaProducer

    options = kafka_python_options(settings)
    producer = KafkaProducer(**options, acks="all")
    sent = [producer.send(settings["topic"], str(number).encode()) for number in range(COUNT)]
    errors = []
    for future in sent:
        try:
            future.get(TIMEOUT)
        except Exception as error:  # any error of the client is the result
            errors.append(type(error).__name__)
    producer.close(5)
    if errors:
        return {"errors": errors}
    consumer = KafkaConsumer(
        settings["topic"], **options, group_id="kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    values = []
    for record in consumer:
        values.append(record.value.decode())
        if len(values) == COUNT:
            break
    consumer.commit()
    consumer.close()
    return {"values": values, "errors": []}


def aiokafka(settings: dict[str, Any]) -> Any:
    """aiokafka."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return str(settings["token"])

    context = None
    if "ca" in settings:
        context = ssl.create_default_context(cafile=settings["ca"])
        if "certificate" in settings:
            context.load_cert_chain(settings["certificate"])
    options: dict[str, Any] = {
        "bootstrap_servers": settings["servers"],
        "security_protocol": settings["protocol"],
        "ssl_context": context,
        "sasl_mechanism": settings.get("mechanism", "PLAIN"),
        "sasl_plain_username": settings.get("user"),
        "sasl_plain_password": settings.get("password"),
        "sasl_oauth_token_provider": Provider() if "token" in settings else None,
    }

    async def run() -> Any:
        async with AIOKafkaProducer(**options) as producer:
            for number in range(COUNT):
                await producer.send_and_wait(settings["topic"], str(number).encode())
        consumer = AIOKafkaConsumer(settings["topic"], **options, group_id="aiokafka", auto_offset_reset="earliest")
        values = []
        async with asyncio.timeout(TIMEOUT), consumer:
            async for record in consumer:
                values.append(record.value.decode())
                if len(values) == COUNT:
                    break
            await consumer.commit()
        return {"values": values, "errors": []}

    return asyncio.run(run())


def confluent_acls(settings: dict[str, Any]) -> Any:
    """librdkafka's admin client."""
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    admin = AdminClient(confluent_options(settings))
    topic, literal, prefixed = ResourceType.TOPIC, ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    allow = AclPermissionType.ALLOW
    made = [
        AclBinding(topic, "of-confluent", literal, "User:bob", "*", AclOperation.WRITE, allow),
        AclBinding(topic, "of-conf", prefixed, "User:bob", "127.0.0.1", AclOperation.READ, allow),
    ]
    for future in admin.create_acls(made).values():
        future.result(TIMEOUT)
    of_bob = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]
        ResourcePatternType.ANY,
        "User:bob",
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    found = admin.describe_acls(of_bob).result(TIMEOUT)
    (deleted,) = [future.result(TIMEOUT) for future in admin.delete_acls([of_bob]).values()]
    left = admin.describe_acls(of_bob).result(TIMEOUT)
    return {"found": sorted(each.name for each in found), "deleted": len(deleted), "left": len(left)}


def kafka_python_acls(settings: dict[str, Any]) -> Any:
    """kafka-python's admin client."""
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        KafkaAdminClient,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )

    admin = KafkaAdminClient(**kafka_python_options(settings))
    pattern = ResourcePattern(ResourceType.TOPIC, "of-kafka-python", ACLResourcePatternType.LITERAL)
    admin.create_acls([ACL("User:bob", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)])
    every = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    of_bob = ACLFilter("User:bob", None, ACLOperation.ANY, ACLPermissionType.ANY, every)
    found = _acls(admin.describe_acls(of_bob))
    admin.delete_acls([of_bob])
    left = _acls(admin.describe_acls(of_bob))
    admin.close()
    return {"found": [each.resource_pattern.resource_name for each in found], "deleted": len(found), "left": len(left)}


def _acls(described: Any) -> Any:
    return described[0] if isinstance(described, tuple) else described


PROGRAMS = {each.__name__: each for each in (confluent, kafka_python, aiokafka, confluent_acls, kafka_python_acls)}


if __name__ == "__main__":
    try:
        said = PROGRAMS[sys.argv[1]](json.loads(sys.argv[2]))
    except Exception as error:  # any error of the client is the result
        said = {"errors": [f"{type(error).__name__}: {error}"]}
    print(json.dumps(said))

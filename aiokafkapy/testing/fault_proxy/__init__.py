"""A TCP proxy in front of a Kafka cluster that decodes its frames and injects faults into them and into connections.

    async with FaultProxy("localhost:9092") as proxy:
        client = KafkaProducer(proxy.bootstrap_servers)
        proxy.stall(node_id=1)                        # connected, but no answers
        proxy.drop_next(ApiKey.PRODUCE, times=2)      # appended, but never answered
        proxy.resume()

Clients' connections and a test's faults come in; the brokers' answers with the proxy's addresses, or their failures,
go out.

``proxy.py`` has the fault verbs, ``rules.py`` the armed request faults, ``requests.py`` the request and answer types,
``links.py`` the pair of connections per client connection, ``gates.py`` the ports, ``traffic.py`` the part of the
proxy that both use, and ``addresses.py`` the addresses in responses.
"""

from .proxy import FaultProxy
from .requests import Answer, Hold, Request, SentBatch

__all__ = ["Answer", "FaultProxy", "Hold", "Request", "SentBatch"]

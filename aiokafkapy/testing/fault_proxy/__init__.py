"""A TCP proxy in front of a Kafka cluster that understands its frames and breaks them, and connections, on command.

    async with FaultProxy("localhost:9092") as proxy:
        client = KafkaProducer(proxy.bootstrap_servers)
        proxy.stall(node_id=1)                        # connected, and silent
        proxy.drop_next(ApiKey.PRODUCE, times=2)      # written, and nobody was told
        proxy.resume()

`proxy.py` has the verbs, `rules.py` what they say of requests, `requests.py` the words for both, `links.py` one
client's connection and the one made for it, `gates.py` the ports, and `addresses.py` the addresses in answers.
"""

from .proxy import FaultProxy
from .requests import Answer, Hold, Request, SentBatch

__all__ = ["Answer", "FaultProxy", "Hold", "Request", "SentBatch"]

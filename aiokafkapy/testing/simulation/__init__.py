"""Virtual time and seeds: a coroutine with its producer and reader, on a simulated network, against a dev broker.

    from aiokafkapy.testing.simulation import Simulation, simulate

    async def scenario(world: Simulation) -> None:
        async with KafkaProducer(world.bootstrap_servers) as producer:
            await place_order(producer, b"book")
        assert_produced(world.broker, "orders", value=b"book", count=1)

    def test_an_order_is_stored_once() -> None:
        simulate(scenario, seeds=200)

A coroutine and seeds come in; the first seed that fails goes out, with the fewest faults with which it does.

Hours pass at once, connections are cut and nodes come and go, and a seed that fails is run again exactly as it was. Our
own simulation, ``tests/simulation``, uses the same modules.

- ``runner.simulate``: the seeds, and the message of a failing one; ``shrinking``: the fewest faults
- ``simulation.Simulation``: the world of one seed; ``virtual_world``: its clocks and random numbers; ``guard``: the
  refused calls
- ``simulated_loop``, ``simulated_network``: the machine's parts
- ``simulated_cluster``, ``replication``, ``faults``: the brokers, and their faults
"""

from __future__ import annotations

from .faults import FAULTS, FAULTS_OF_TRANSACTIONS, RECOVERABLE, Fault, Faults
from .guard import SimulationError
from .runner import SimulationFailure, simulate
from .simulated_loop import Deadlock
from .simulation import Report, Simulation

__all__ = [
    "FAULTS",
    "FAULTS_OF_TRANSACTIONS",
    "RECOVERABLE",
    "Deadlock",
    "Fault",
    "Faults",
    "Report",
    "Simulation",
    "SimulationError",
    "SimulationFailure",
    "simulate",
]

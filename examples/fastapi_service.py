"""Orders over HTTP into Kafka, with FastAPI.

pip install '.[fastapi]'
AIOKAFKAPY_BOOTSTRAP_SERVERS=localhost:9092 uvicorn fastapi_service:app
curl -d '{"customer": "ann", "item": "tea"}' -H 'content-type: application/json' localhost:8000/orders
"""

import os

from fastapi import FastAPI, status
from fastapi.requests import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from aiokafkapy import ProducerConfig
from aiokafkapy.errors import KafkaError
from aiokafkapy.integrations.fastapi import ProducerDep, health_router, kafka_lifespan
from aiokafkapy.observability.programs import configure_logging

configure_logging(os.environ.get("LOG_FORMAT", "console"), level=os.environ.get("LOG_LEVEL", "info"))

app = FastAPI(lifespan=kafka_lifespan(config=ProducerConfig.from_env(), drain_timeout=10))
app.include_router(health_router())


class Order(BaseModel):
    customer: str
    item: str


class Accepted(BaseModel):
    partition: int
    offset: int


@app.post("/orders")
async def place(order: Order, producer: ProducerDep) -> Accepted:
    """200 means that the broker has the order."""
    metadata = await producer.send("orders", order.model_dump_json().encode(), key=order.customer.encode())
    return Accepted(partition=metadata.partition, offset=metadata.offset)


@app.post("/clicks", status_code=status.HTTP_202_ACCEPTED)
async def click(request: Request, producer: ProducerDep) -> None:
    """202 means that the click is on its way: delivered in the background, at the latest as the service ends."""
    await producer.enqueue("clicks", await request.body())


@app.exception_handler(KafkaError)
async def unavailable(request: Request, error: KafkaError) -> JSONResponse:
    """The caller may retry a record that Kafka did not accept."""
    body = {"error": str(error), "retriable": error.retriable, "outcome_unknown": error.outcome_unknown}
    return JSONResponse(body, status_code=503)

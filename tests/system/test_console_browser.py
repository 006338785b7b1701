"""The console's page in a real browser: as a person sees, clicks and types.

The pictures of docs/console.md are made here: AIOKAFKAPY_PICTURES=1 writes them anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiokafkapy import KafkaProducer, ProducerRecord
from aiokafkapy.broker import DevBroker, FaultSchedule
from aiokafkapy.console import Console
from aiokafkapy.protocol.api import ApiKey
from tests.browsers import opened_page, require_browser

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

pytestmark = pytest.mark.timeout(180)

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
MAKES_PICTURES = os.environ.get("AIOKAFKAPY_PICTURES") == "1"
LONGEST_PICTURE = 300_000
"""Bytes."""
MARKUP = "<img src=x onerror=\"document.title='stolen'\">"


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    require_browser()
    async with DevBroker(3, console=True) as broker:
        broker.create_topic("orders", 3)
        yield broker


@asynccontextmanager
async def traffic(broker: DevBroker, a_second: int) -> AsyncIterator[None]:
    """Orders are written until the block ends."""

    async def write() -> None:
        number = 0
        loop = asyncio.get_running_loop()
        async with KafkaProducer(broker.bootstrap_servers, client_id="shop", retry_backoff_ms=10) as producer:
            began = loop.time()
            while True:
                batch = [order(number + one) for one in range(max(1, a_second // 20))]
                number += len(batch)
                await producer.send_many("orders", batch)
                await asyncio.sleep(max(0.0, began + number / a_second - loop.time()))

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.wait({writing})


def order(number: int) -> ProducerRecord:
    items = ("book", "lamp", "chair", "teapot")
    value = {"id": number, "item": items[number % 4], "price": 5 + number % 90, "status": "paid"}
    customer = b"customer-%d" % (number * 7 % 60)
    return ProducerRecord("orders", json.dumps(value).encode(), customer, headers=[("trace", b"%08x" % number)])


async def sees(page: Page, selector: str, text: str | re.Pattern[str]) -> None:
    """Return when the last element of this selector has the text."""
    from playwright.async_api import expect

    await expect(page.locator(selector).last).to_contain_text(text, timeout=60_000)


async def row_of(page: Page, text: str) -> str:
    """The text of the first table row with this in it."""
    return await page.locator("main tbody tr", has_text=text).first.inner_text()


async def test_topics_are_live_and_the_keyboard_goes_everywhere(broker: DevBroker) -> None:
    async with traffic(broker, 200), opened_page(broker.console.url, color_scheme="dark") as page:
        await page.wait_for_selector("main tbody tr")
        await sees(page, ".chart .now", re.compile("[1-9]"))
        assert "orders" in await row_of(page, "orders")
        assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
        headings = {"2": "Records", "3": "Consumer groups", "4": "Transactions", "5": "Clients", "6": "Requests"}
        for key, heading in {**headings, "7": "Faults", "1": "Topics"}.items():
            await page.keyboard.press(key)
            await sees(page, "main h1", heading)
        await page.wait_for_selector("main tbody tr")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await sees(page, "main h1", "orders")
        await page.wait_for_selector("main tbody tr:nth-child(3)")
        await page.keyboard.press("Escape")
        await sees(page, "main h1", "Topics")
        await page.keyboard.press("/")
        await page.keyboard.type("nothing like it")
        await page.get_by_text("No topics yet").wait_for()
        await page.keyboard.press("Escape")
        await page.keyboard.press("t")
        await page.keyboard.press("?")
        await page.get_by_text("the next row, the one before").wait_for()
        await page.reload()
        await page.wait_for_selector("main tbody tr")
        assert await page.evaluate("document.documentElement.dataset.theme") == "light"


async def test_records_are_followed_filtered_opened_and_written(broker: DevBroker) -> None:
    async with opened_page(f"{broker.console.url}#/records/orders") as page:
        await page.get_by_text("No record yet").wait_for()
        await sees(page, "main .foot", "since you look")
        await page.keyboard.press("n")
        await page.get_by_label("Key", exact=True).fill("ann")
        await page.get_by_label("Value", exact=True).fill(MARKUP)
        await page.get_by_label("Headers").fill("trace: abc\nkind: test")
        await page.get_by_role("button", name="Write", exact=True).click()
        await page.get_by_text("Written to orders-").wait_for()
        await page.keyboard.press("Escape")
        (written,) = broker.records("orders")
        assert (written.key, written.value) == (b"ann", MARKUP.encode())
        assert list(written.headers) == [("trace", b"abc"), ("kind", b"test")]
        await page.locator("main tbody tr", has_text="ann").click()
        await page.locator("#record-dialog pre", has_text=MARKUP).wait_for()
        assert "trace" in await page.locator("#record-dialog").inner_text()
        assert await page.title() != "stolen"
        assert await page.locator("img[src=x]").count() == 0
        await page.keyboard.press("Escape")
        await page.get_by_label("Filter").fill("paid -lamp")
        await page.wait_for_selector("main tbody tr", state="detached")
        async with traffic(broker, 100):
            await page.wait_for_selector("main tbody tr:nth-child(5)")
        rows = await page.locator("main tbody tr").all_inner_texts()
        assert all("paid" in row and "lamp" not in row for row in rows)
        await page.get_by_label("Filter").fill('"')
        await page.get_by_text("a quote that is not closed").wait_for()


async def test_records_of_a_transaction_are_marked_until_it_is_decided_or_left_out(broker: DevBroker) -> None:
    from playwright.async_api import expect

    async with (
        KafkaProducer(broker.bootstrap_servers, transactional_id="shop") as producer,
        opened_page(f"{broker.console.url}#/records/orders") as page,
    ):
        await sees(page, "main .foot", "since you look")
        await producer.begin_transaction()
        await producer.send("orders", b"book")
        row = page.locator("main tbody tr", has_text="book")
        await expect(row.locator(".badge")).to_have_text("pending")
        await producer.abort_transaction()
        await expect(row.locator(".badge")).to_have_text("aborted")
        await row.click()
        await page.get_by_text("Its transaction was aborted").wait_for()
        await page.keyboard.press("Escape")
        async with producer.transaction():
            await producer.send("orders", b"lamp")
        await page.locator("main tbody tr", has_text="lamp").wait_for()
        await expect(page.locator("main tbody .badge")).to_have_count(1)
        await page.get_by_label("From").select_option("earliest")
        await expect(page.locator("main tbody tr")).to_have_count(2)
        await page.get_by_label("Isolation").select_option("read_committed")
        await expect(page.locator("main tbody tr")).to_have_count(1)
        assert "lamp" in await row_of(page, "lamp")


async def test_the_page_says_that_it_looks_only_when_its_stream_is_open(broker: DevBroker) -> None:
    is_let_through = asyncio.Event()

    async def hold(route: Route) -> None:
        await is_let_through.wait()
        await route.continue_()

    async with opened_page(f"{broker.console.url}#/topics") as page:
        await page.route("**/api/follow*", hold)
        async with page.expect_request("**/api/follow*"):
            await page.evaluate("location.hash = '#/records/orders'")
        await sees(page, "main .foot", "Connecting")
        is_let_through.set()
        await sees(page, "main .foot", "0 records since you look")
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("orders", b"book")
        await page.locator("main tbody tr", has_text="book").wait_for()


async def test_a_topic_that_is_made_again_goes_on_in_the_page(broker: DevBroker) -> None:
    async with opened_page(f"{broker.console.url}#/records/orders") as page:
        await sees(page, "main .foot", "since you look")
        for value in (b"of the old one", b"of the new one"):
            async with KafkaProducer(broker.bootstrap_servers) as producer:
                await producer.send("orders", value, partition=0)  # at the same offset
            await page.locator("main tbody tr", has_text=value.decode()).wait_for()
            broker.delete_topic("orders")
            await sees(page, "main .foot", "there is no topic 'orders'")
            broker.create_topic("orders", 2)


async def test_a_time_that_is_not_a_date_and_an_address_that_is_not_a_name_are_shown(broker: DevBroker) -> None:
    broker.create_topic("nano", 1, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send("nano", b"v", timestamp_ms=1_700_000_000_000_000_000)
    async with opened_page(f"{broker.console.url}#/records/nano") as page:
        await page.get_by_label("From").select_option("earliest")
        await sees(page, "main tbody tr", "1700000000000000000 ms")
        await page.locator("main tbody tr").last.click()
        await sees(page, "#record-dialog", "1700000000000000000 ms")
    async with opened_page(f"{broker.console.url}#/topic/%E0%A4%A") as page:
        await sees(page, "main", "%E0%A4%A")


async def test_existing_records_are_read_page_by_page(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send_many("orders", [b"%d" % number for number in range(250)])
    async with opened_page(f"{broker.console.url}#/records/orders") as page:
        await page.get_by_label("From").select_option("earliest")
        await sees(page, "main .foot", "200 records of 200 looked at; there are more")
        assert await page.locator("main tbody tr").count() == 200
        await page.get_by_role("button", name="Next").click()
        await sees(page, "main .foot", "50 records of 50 looked at; this is the end")
        assert await page.locator("main tbody tr").count() == 50
        assert not await page.get_by_role("button", name="Next").is_visible()


async def test_faults_are_switched_played_saved_and_undone(broker: DevBroker, tmp_path: Path) -> None:
    from playwright.async_api import expect

    async with opened_page(f"{broker.console.url}#/faults") as page:
        await page.get_by_role("switch", name="Node 2 runs").click()
        await page.get_by_text("Node 2 is stopped").wait_for()
        assert [node.node_id for node in broker.running_nodes] == [1, 3]
        await page.get_by_role("button", name="End").click()
        await page.get_by_text("None: the broker does as it should.").wait_for()
        assert len(broker.running_nodes) == 3
        form = page.locator("form[data-control=delay]")
        await form.get_by_label("api").select_option("FETCH")
        await form.get_by_label("seconds").fill("0.25")
        await form.get_by_role("button", name="Set").click()
        await page.get_by_text("FETCH answers 0.25 s late").wait_for()
        assert broker.controls.faults.delays == {ApiKey.FETCH: 0.25}
        for name in ("one", "two"):
            broker.controls.fail_next(ApiKey.FETCH, 6, times=None, name=name)
        armed = page.get_by_text("FETCH fails with NotLeaderOrFollowerError, until ended")
        await expect(armed).to_have_count(2)
        await page.get_by_role("button", name="End one").click()  # in the list of events
        await expect(armed).to_have_count(1)
        await page.locator(".row", has=armed).get_by_role("button", name="End").click()
        await expect(armed).to_have_count(0)
        assert broker.controls.faults.delays == {ApiKey.FETCH: 0.25}
        broker.controls.hold_transactions()  # by a test's own call
        await page.wait_for_selector("[aria-label^=Decide][aria-checked=true]")
        await page.get_by_role("button", name="Clear all").click()
        await page.get_by_text("None: the broker does as it should.").wait_for()
        await page.get_by_label("Seed").fill("3")
        await page.get_by_label("Seconds", exact=True).fill("30")
        await page.get_by_role("button", name="Draw").click()
        await page.get_by_text("calls in 30 s").wait_for()
        async with page.expect_download() as download:
            await page.get_by_role("button", name="Save").click()
        await (await download.value).save_as(tmp_path / "faults.json")
        expected = FaultSchedule.from_seed(3, seconds=30, topics={"orders": 3}, nodes=3)
        assert FaultSchedule.load(tmp_path / "faults.json") == expected
        await page.set_input_files("input[type=file]", tmp_path / "faults.json")
        await page.get_by_role("button", name="Play").click()
        await page.get_by_role("button", name="Stop").click()
        await page.get_by_text(", stopped").wait_for()
        playback = broker.controls.playback
        assert playback is not None
        assert playback.is_over
        assert len(broker.running_nodes) == 3
        assert await page.locator(".events .row").count() >= 5


async def test_ten_thousand_records_a_second_leave_the_tab_quick_and_its_lists_short(broker: DevBroker) -> None:
    async with opened_page(f"{broker.console.url}#/records/orders") as page:
        await sees(page, "main .foot", "since you look")
        async with traffic(broker, 10_000):
            await page.wait_for_selector("main tbody tr:nth-child(300)")
            await sees(page, "main .foot", re.compile(r"^([2-9]\d|\d{3}),\d{3} records"))
            assert "left out of the list" in await page.locator("main .foot").last.inner_text()
            # The tab answers: a click is followed by its effect while records come.
            await page.keyboard.press("p")
            await page.get_by_role("button", name="Go on").wait_for()
            await page.keyboard.press("p")
            await page.get_by_role("button", name="Pause").wait_for()
        assert await page.locator("main tbody tr").count() <= 300
        written = sum(len(broker.records("orders", index)) for index in range(3))
        assert written >= 20_000


@pytest.mark.parametrize("width", [360, 1024])
async def test_no_view_is_wider_than_the_window_and_every_control_has_a_name(broker: DevBroker, width: int) -> None:
    broker.create_topic("a-name-as-long-as-they-are-in-companies." + "of-some-team." * 15 + "v1", 2)
    viewport = {"width": width, "height": 700}
    async with traffic(broker, 50), opened_page(broker.console.url, viewport=viewport) as page:
        names = ("topics", "topic/orders", "records/orders", "groups", "transactions", "clients", "requests", "faults")
        for view in names:
            await page.evaluate(f"location.hash = '#/{view}'")
            await sees(page, "#status-text", "live")
            await page.wait_for_selector("main h1")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            unnamed = await page.evaluate(
                "[...document.querySelectorAll('button, select, input:not([hidden]), textarea')].filter((each) =>"
                " !each.labels?.length && !each.getAttribute('aria-label') && !each.textContent.trim()"
                ").map((each) => each.outerHTML)"
            )
            assert unnamed == [], view


async def test_a_read_only_page_offers_nothing_that_writes(broker: DevBroker) -> None:
    async with (
        Console.of_broker(broker, read_only=True, token="a-token-of-24-characters") as console,
        opened_page(console.url) as page,
    ):
        await page.get_by_text("read-only", exact=True).wait_for()
        await page.wait_for_selector("main tbody tr")
        assert await page.get_by_role("button", name="Write a record").count() == 0
        assert "token" not in page.url
        await page.keyboard.press("7")
        await page.get_by_role("switch", name="Node 2 runs").wait_for()
        assert await page.get_by_role("switch", name="Node 2 runs").is_disabled()


async def test_the_end_of_the_broker_is_shown(broker: DevBroker) -> None:
    async with opened_page(broker.console.url, server_ends=True) as page:
        await sees(page, "#status-text", "live")
        await broker.stop()
        await page.wait_for_selector("#status.off")


async def test_pictures_of_the_documents_are_made(broker: DevBroker, tmp_path: Path) -> None:
    folder = PICTURES if MAKES_PICTURES else tmp_path
    folder.mkdir(exist_ok=True)
    seconds = 40.0 if MAKES_PICTURES else 0.5
    broker.create_topic("payments", 6, retention_ms=86_400_000)
    async with traffic(broker, 400), consumers(broker), opened_page(broker.console.url) as page:
        await page.wait_for_selector("main tbody tr")
        await asyncio.sleep(seconds)
        broker.controls.delay(ApiKey.PRODUCE, 0.2)
        await asyncio.sleep(seconds / 10)
        broker.controls.delay(ApiKey.PRODUCE, 0)
        await asyncio.sleep(seconds / 5)
        await picture(page, folder, "topics")
        await page.evaluate("location.hash = '#/records/orders'")
        await page.wait_for_selector("main tbody tr:nth-child(20)")
        await picture(page, folder, "records")
        async with payments(broker):
            await page.evaluate("location.hash = '#/records/payments'")
            await page.get_by_label("From").select_option("last:100")
            await page.locator("main tbody tr .badge", has_text="pending").wait_for()
            await picture(page, folder, "aborted", height=560)
        await page.evaluate("location.hash = '#/group/billing'")
        await page.wait_for_selector("main tbody tr:nth-child(3)")
        await picture(page, folder, "group")
        await page.keyboard.press("t")
        await page.evaluate("location.hash = '#/requests'")
        await page.wait_for_selector("main tbody tr:nth-child(20)")
        await picture(page, folder, "requests")
        await page.evaluate("location.hash = '#/faults'")
        broker.controls.throttle("billing-1", 20)
        await page.get_by_text("billing-1 is throttled for 20 ms").wait_for()
        await page.get_by_role("button", name="Draw").click()
        await page.get_by_role("button", name="Play").click()
        await page.get_by_text("Playing").wait_for()
        await asyncio.sleep(seconds / 4)
        await picture(page, folder, "faults", height=1_000)


@asynccontextmanager
async def payments(broker: DevBroker) -> AsyncIterator[None]:
    """Transactions that were committed, one that was aborted, and one that is open in the block."""
    async with KafkaProducer(broker.bootstrap_servers, transactional_id="payments-1") as producer:
        for number, outcome in enumerate(("committed", "committed", "aborted", "committed", "open")):
            await producer.begin_transaction()
            value = json.dumps({"order": 7 + number, "event": "taken", "price": 5 + 9 * number}).encode()
            await producer.send("payments", value, key=b"%d" % (7 + number), partition=0)
            if outcome == "committed":
                await producer.commit_transaction()
            elif outcome == "aborted":
                await producer.abort_transaction()
        yield
        await producer.abort_transaction()


@asynccontextmanager
async def consumers(broker: DevBroker) -> AsyncIterator[None]:
    """Two members of a group that read the orders."""
    aiokafka = pytest.importorskip("aiokafka")

    async def read(client_id: str) -> None:
        options: dict[str, Any] = {"auto_commit_interval_ms": 500, "heartbeat_interval_ms": 200}
        async with aiokafka.AIOKafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="billing",
            client_id=client_id,
            **options,
        ) as consumer:
            while True:
                await consumer.getmany(timeout_ms=100)

    reading = [asyncio.create_task(read(name)) for name in ("billing-1", "billing-2")]
    try:
        yield
    finally:
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)


async def picture(page: Page, folder: Path, name: str, height: int = 800) -> None:
    """Write one, and check that it is small and not empty."""
    await page.set_viewport_size({"width": 1280, "height": height})
    path = folder / f"console-{name}.png"
    await page.screenshot(path=path)
    assert 10_000 < path.stat().st_size < LONGEST_PICTURE

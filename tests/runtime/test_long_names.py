"""A name that is too long for an answer affects only its owner."""

import orjson
from nats.aio.client import Client

from hivemem_contracts.errors import CODE_HEADER, TooLarge
from hivemem_runtime.bus.requests.intake import Requests


async def test_a_request_in_a_name_that_no_worker_could_ask_in_is_refused(requests: Requests, caller: Client) -> None:
    for subject in (f"hive.req.{'t' * 2_100}.bot.things.echo", f"hive.req.t.{'a' * 3_300}.things.echo"):
        message = await caller.request(subject, b'{"text":"x"}', timeout=10)
        assert message.headers is not None
        assert message.headers[CODE_HEADER] == str(TooLarge.code)
        assert orjson.loads(message.data)["error"]["context"]["limit"] == 960

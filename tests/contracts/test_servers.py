"""Wrong server addresses are named in the error, without passwords."""

import pytest

from hivemem_contracts.servers import server_list, shown_servers


@pytest.mark.parametrize(
    ("given", "servers"),
    [
        ("nats://127.0.0.1:4222", ["nats://127.0.0.1:4222"]),
        ("nats://a:1, tls://b ,c:3,d", ["nats://a:1", "tls://b", "c:3", "d"]),
        ("ws://a:1,wss://b", ["ws://a:1", "wss://b"]),
        ("nats://me:secret@[::1]:4222", ["nats://me:secret@[::1]:4222"]),
    ],
)
def test_addresses_are_separated_by_commas(given: str, servers: list[str]) -> None:
    assert server_list(given) == servers


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("", "'' is empty"),
        ("nats://a,,nats://b", r"'' \(server 2 of 3\) is empty"),
        ("http://me:secret@a", "'http://a': the scheme 'http'"),
        ("nats://a,nats://me:secret@:4222", r"'nats://:4222' \(server 2 of 2\): there is no host"),
        ("nats://me:secret@a:99999", "'nats://a:99999': the host or the port"),
        ("nats://me:secret@a:port", "'nats://a:port': the host or the port"),
        ("nats://me:secret@[::1", "the host or the port"),
        ("nats://a:0", "port 0"),
        ("nats://a b:4222", "there is no host"),
        ("nats://me:secret@a,ws://b", "nats://a,ws://b: websocket addresses"),
    ],
)
def test_a_wrong_address_is_named_without_its_password(given: str, named: str) -> None:
    with pytest.raises(ValueError, match=named) as raised:
        server_list(given)
    assert "secret" not in str(raised.value)


def test_addresses_are_shown_without_users_and_passwords() -> None:
    assert shown_servers("nats://me:secret@a:1, tls://b,me:se@cret@c") == "nats://a:1,tls://b,c"

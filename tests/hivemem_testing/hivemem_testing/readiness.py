"""Questions to a server: does it answer, and can it be used now."""

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any, cast

from minio import Minio
from minio.error import MinioException
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from urllib3 import PoolManager
from urllib3.exceptions import HTTPError

ANSWER_TIMEOUT_SECONDS = 2.0
REPLICA_SET = "rs0"
FORGETTING_FILES = (
    *("--setParameter", "minSnapshotHistoryWindowInSeconds=0", "--syncdelay", "5"),
    *("--wiredTigerEngineConfigString", "file_manager=(close_idle_time=5,close_scan_interval=2)"),
)
"""Each test has a database of its own. The files of a dropped one would stay, and stay open, for minutes, and a mongod
that may open no more of them ends itself."""


def nats_information(host: str, port: int) -> Mapping[str, object] | None:
    """What a nats-server says of itself when a client connects; None where nothing answers."""
    try:
        with socket.create_connection((host, port), ANSWER_TIMEOUT_SECONDS) as connection:
            connection.settimeout(ANSWER_TIMEOUT_SECONDS)
            greeting = connection.makefile("rb").readline()
    except OSError:
        return None
    if not greeting.startswith(b"INFO "):
        return None
    return cast("Mapping[str, object]", json.loads(greeting.removeprefix(b"INFO ")))


def nats_is_ready(host: str, port: int) -> bool:
    information = nats_information(host, port)
    return information is not None and information.get("jetstream") is True


def version_of(text: object) -> tuple[int, int]:
    """Major and minor of a version like `2.15.1`; (0, 0) for what is none."""
    major, _, rest = str(text).partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


def http_answers(host: str, port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def objects_are_ready(host: str, port: int, access_key: str, secret_key: str) -> bool:
    """Whether it does something for who has the keys. Before that it calls itself alive, and even ready."""
    with PoolManager(retries=False, timeout=ANSWER_TIMEOUT_SECONDS) as pool:
        client = Minio(f"{host}:{port}", access_key, secret_key, secure=False, http_client=pool)
        try:
            client.list_buckets()
        except (MinioException, HTTPError):
            return False
        return True


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), ANSWER_TIMEOUT_SECONDS).close()
    except OSError:
        return False
    return True


def mongo_is_ready(host: str, port: int, member: str) -> bool:
    """Whether the one node is a writable primary. A new node is told to be the only member, by the name `member`."""
    if not accepts(host, port):
        return False
    milliseconds = int(ANSWER_TIMEOUT_SECONDS * 1000)
    try:
        with MongoClient[dict[str, Any]](
            host,
            port,
            directConnection=True,
            serverSelectionTimeoutMS=milliseconds,
            socketTimeoutMS=milliseconds,
        ) as client:
            state = client.admin.command("hello")
            if "setName" not in state:
                # Another that was quicker, or a set that is still loading, is an error here and no matter: ask again.
                configuration = {"_id": REPLICA_SET, "members": [{"_id": 0, "host": member}]}
                client.admin.command("replSetInitiate", configuration)
            return state.get("isWritablePrimary") is True and "setName" in state
    except PyMongoError:
        return False


def mongo_url_is_ready(url: str) -> bool:
    milliseconds = int(ANSWER_TIMEOUT_SECONDS * 1000)
    try:
        with MongoClient[dict[str, Any]](url, serverSelectionTimeoutMS=milliseconds) as client:
            state = client.admin.command("hello")
            return state.get("isWritablePrimary") is True and "setName" in state
    except PyMongoError:
        return False

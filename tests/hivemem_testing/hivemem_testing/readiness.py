"""Checks whether a server answers, and whether it can be used now."""

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
"""Options that close the files of dropped databases soon. They would otherwise stay open for minutes, each test has a
database of its own, and a mongod that may open no more files ends itself."""


def nats_information(host: str, port: int) -> Mapping[str, object] | None:
    """Return the information that a nats-server sends to a new client, or None if nothing answers."""
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
    """Return major and minor of a version like `2.15.1`, or (0, 0) for any other text."""
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
    """Return whether the store serves a client with these keys. Before that it may report itself alive and ready."""
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
    """Return whether the node is a writable primary. A new node becomes the only member, under the name `member`."""
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
                # This fails if another process was quicker or the set is still loading; the next call succeeds.
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

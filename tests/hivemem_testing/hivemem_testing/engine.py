"""Finds out, in a bounded time, whether there is a Docker engine and whether it has an image."""

import functools
import gc
import threading
import warnings
from contextlib import closing

ENGINE_TIMEOUT_SECONDS = 3.0
LIST_TIMEOUT_SECONDS = 30.0
PULL_TIMEOUT_SECONDS = 180.0

# After one failed pull the others are not tried: each could wait for the timeout of an unreachable registry.
_failed_pulls: list[str] = []


class NoContainerError(Exception):
    """Docker cannot provide this server; the text gives the reason."""


@functools.cache
def engine_failure() -> str | None:
    """Return why no Docker engine can be used from here, or None."""
    with warnings.catch_warnings():
        # docker-py leaves a failed socket to the garbage collector, whose warning would hit a later test.
        warnings.simplefilter("ignore", ResourceWarning)
        failure = _ask_engine()
        gc.collect()
    return failure


def _ask_engine() -> str | None:
    try:
        from testcontainers.core.docker_client import DockerClient
    except ImportError:
        return "testcontainers is not installed"
    try:
        # An engine that accepts and never answers runs into the client's timeout.
        with closing(DockerClient(timeout=ENGINE_TIMEOUT_SECONDS).client) as client:
            client.ping()  # pyright: ignore[reportUnknownMemberType]  its arguments have no types
    except Exception:  # docker-py also raises errors of requests and urllib3
        return "no Docker engine answers"
    return None


def have_image(image: str) -> None:
    """Find the image on this machine, or pull it within a bounded time."""
    repository, _, tag = image.partition(":")
    tag = tag or "latest"
    if _is_here(repository, tag):
        return
    if _failed_pulls:
        raise NoContainerError(f"{image} is not on this machine, and {_failed_pulls[0]} could not be pulled")
    if not _pull(repository, tag):
        _failed_pulls.append(image)
        raise NoContainerError(f"{image} is not on this machine, and could not be pulled")


@functools.cache
def settle_cleaner() -> None:
    """Configure how leftover containers are removed. testcontainers starts a container that removes the others when
    this process dies. If its image is missing it is switched off, and only `stop` removes the servers."""
    from testcontainers.core.config import testcontainers_config

    if testcontainers_config.ryuk_disabled:
        return
    try:
        have_image(testcontainers_config.ryuk_image)
    except NoContainerError:
        testcontainers_config.ryuk_disabled = True


def _is_here(repository: str, tag: str) -> bool:
    from testcontainers.core.docker_client import DockerClient

    try:
        with closing(DockerClient(timeout=LIST_TIMEOUT_SECONDS).client) as client:
            return bool(client.images.list(name=f"{repository}:{tag}"))
    except Exception as error:  # see engine_failure
        raise NoContainerError(f"the Docker engine does not list its images: {error}") from error


def _pull(repository: str, tag: str) -> bool:
    from testcontainers.core.docker_client import DockerClient

    pulled = threading.Event()

    def pull() -> None:
        try:
            with closing(DockerClient(timeout=PULL_TIMEOUT_SECONDS).client) as client:
                client.images.pull(repository, tag=tag)
        except Exception:  # see engine_failure
            return
        pulled.set()

    puller = threading.Thread(target=pull, name=f"pull-{repository}", daemon=True)
    puller.start()
    puller.join(PULL_TIMEOUT_SECONDS)
    return pulled.is_set()

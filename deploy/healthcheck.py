"""Whether the worker in this container can work, by its exit code; an image's HEALTHCHECK."""

import http.client
import os
import sys

TIMEOUT_SECONDS = 4.0
KEPT_BYTES = 4_000


def main() -> int:
    port = int(os.environ.get("HIVEMEM_HTTP_PORT") or 8222)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        body = answer.read(KEPT_BYTES)
    except (OSError, http.client.HTTPException) as error:
        sys.stdout.write(f"no answer on port {port}: {error!r}\n")
        return 1
    if answer.status != http.client.OK:
        # The engine keeps this much of it with the container's health, where whoever asks for the reason finds it.
        sys.stdout.write(body.decode(errors="replace"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

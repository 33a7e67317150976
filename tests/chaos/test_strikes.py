"""After any strikes, every acknowledged write is there once and in order, in the store and on the feed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from .cases import ALWAYS, Case, all_cases
from .fleet import running_fleet
from .seeds import FOUND, SEED, SEEDS, SOAK
from .torment import REST_AND_VERIFICATION_SECONDS, SECONDS, torment


def parameters() -> Iterator[ParameterSet]:
    for case in all_cases() if SOAK else ALWAYS:
        for seed in (*SEEDS, *(FOUND if SOAK and case in ALWAYS else ())):
            name = case.name if seed == SEED else f"{case.name}-{seed}"
            seconds = SECONDS * case.share + REST_AND_VERIFICATION_SECONDS
            yield pytest.param(case, seed, id=name, marks=pytest.mark.timeout(seconds))


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten_sockets")
# The NATS client leaks a socket when the server dies during a reconnect.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(("case", "seed"), list(parameters()))
async def test_nothing_acknowledged_is_lost_repeated_or_reordered(case: Case, seed: int, tmp_path: Path) -> None:
    print(f"HIVEMEM_TEST_SEED={seed}")  # noqa: T201 - shown with what failed
    trial = case.service.begin(case.circumstances(seed))
    outside = case.service.outside if case.has_outside else None
    with running_fleet(tmp_path, case.store, case.commands, case.service.settings, case.kind.need, outside) as fleet:
        await torment(fleet, trial, case.kind.targets(fleet), seed, SECONDS * case.share)

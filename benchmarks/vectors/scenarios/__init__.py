"""The scenarios by name, in the order in which they run: the first one fills what the others search."""

from typing import Final

from benchmarks.vectors.scenarios import exactness, indexing, model, puts, recalls

SCENARIOS: Final = {
    "indexing": indexing.run,
    "recall": recalls.run,
    "exactness": exactness.run,
    "model": model.run,
    "puts": puts.run,
}

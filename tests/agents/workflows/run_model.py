"""A plain model of runs: each list of steps is a generator that yields where a task has to be done.

It knows nothing of commits, numbers or leases. Random definitions are carried out by it and by the rules.
"""

from collections import Counter
from collections.abc import Generator
from random import Random
from typing import Any, Final

Step = dict[str, Any]
Task = tuple[str, int]
"""The id of a step and its visit."""

VISITS: Final = 3


class Failed(Exception):
    """The run has failed at a step."""


def holds(condition: str, state: dict[str, Any], output: Any) -> bool:
    """Evaluate the conditions that `random_definition` makes: `state.x == 2`, `output != 1`, `state.x > 0`."""
    left, operator, right = condition.split()
    found = output if left == "output" else state.get(left.removeprefix("state."))
    if operator == "==":
        # A missing key has no value to compare.
        return left == "output" or left.removeprefix("state.") in state if found == int(right) else False
    if left != "output" and left.removeprefix("state.") not in state:
        return False
    if operator == "!=":
        return bool(found != int(right))
    return isinstance(found, int) and found > int(right)


class RunModel:
    """A run of a definition. `pending` are the tasks to do, `done` the compensable steps that completed."""

    def __init__(self, steps: list[Step]) -> None:
        self.state: dict[str, Any] = {}
        self.visits: Counter[str] = Counter()
        self.undo: list[tuple[str, Any]] = []
        self.pending: list[Task] = []
        self.outputs: dict[Task, Any] = {}
        self.status = "running"
        self._run = self._list(steps)
        self._next()

    def do(self, task: Task, output: Any) -> None:
        self.pending.remove(task)
        self.outputs[task] = output
        self._next()

    def fail(self) -> None:
        self.pending = []
        self.status = "compensated" if self.undo else "failed"

    def _next(self) -> None:
        try:
            next(self._run)
        except StopIteration:
            self.status = "completed"
        except Failed:
            self.fail()

    def _list(self, steps: list[Step]) -> Generator[None]:
        at = 0
        places = {step["id"]: place for place, step in enumerate(steps)}
        while at < len(steps):
            step = steps[at]
            self.visits[step["id"]] += 1
            if self.visits[step["id"]] > VISITS:
                raise Failed
            if "when" in step and not holds(step["when"], self.state, None):
                at += 1
                continue
            output = yield from self._one(step)
            if "save" in step:
                self.state[step["save"]] = output
            if "compensate" in step:
                self.undo.append((step["compensate"], output))
            at += 1
            for target in step.get("next", ()):
                if "when" not in target or holds(target["when"], self.state, output):
                    at = len(steps) if target["to"] == "end" else places[target["to"]]
                    break

    def _one(self, step: Step) -> Generator[None, None, Any]:
        if "parallel" in step:
            return (yield from self._parallel(step))
        task = (step["id"], self.visits[step["id"]])
        self.pending.append(task)
        while task not in self.outputs:
            yield
        return self.outputs[task]

    def _parallel(self, step: Step) -> Generator[None, None, Any]:
        branches: list[Generator[None] | None] = []
        any_of_them = step.get("join") == "any"
        own: list[set[Task]] = []
        for steps in step["parallel"]:
            branches.append(self._list(steps))
            own.append({(inner["id"], visit) for inner in steps for visit in range(1, VISITS + 1)})
            if self._ended(branches, len(branches) - 1) and any_of_them:
                return self._joined(own, len(branches) - 1)
        while any(branches):
            yield
            for place in range(len(branches)):
                if branches[place] is not None and self._ended(branches, place) and any_of_them:
                    return self._joined(own, place)
        return None

    def _ended(self, branches: list[Generator[None] | None], place: int) -> bool:
        branch = branches[place]
        assert branch is not None, "it goes on"
        try:
            next(branch)
        except StopIteration:
            branches[place] = None
            return True
        return False

    def _joined(self, own: list[set[Task]], place: int) -> dict[str, int]:
        for tasks in own:
            self.pending = [task for task in self.pending if task not in tasks]
        return {"branch": place}


def random_definition(random: Random) -> list[Step]:
    """Return steps without a rule broken but for reachability, which no run needs."""
    counter = iter(range(100))

    def some(count: int, *, nested: bool) -> list[Step]:
        ids = [f"s{next(counter)}" for _ in range(count)]
        return [one(id, ids, nested=nested) for id in ids]

    def one(id: str, ids: list[str], *, nested: bool) -> Step:
        step: Step = {"id": id, "max_visits": VISITS}
        if random.random() < 0.3:
            step["when"] = condition("state.")
        if random.random() < 0.5:
            step["save"] = random.choice("xyz")
        if random.random() < 0.4:
            targets = [
                {"to": random.choice([*ids, "end"]), "when": condition(random.choice(["state.", "output"]))}
                for _ in range(random.randint(1, 2))
            ]
            step["next"] = targets
        if not nested and random.random() < 0.3:
            step.pop("save", None)
            step["parallel"] = [some(random.randint(1, 3), nested=True) for _ in range(random.randint(1, 3))]
            step["join"] = random.choice(["all", "any"])
        elif random.random() < 0.4:
            step["compensate"] = f"undo-{id}"
        return step

    def condition(left: str) -> str:
        found = left if left == "output" else f"{left}{random.choice('xyz')}"
        return f"{found} {random.choice(['==', '!=', '>'])} {random.randint(0, 2)}"

    return some(random.randint(1, 6), nested=False)

"""Fields by position: `get user:alice name` means `get --namespace user:alice --key name`."""

from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperCommand, TyperOption


class OperationCommand(TyperCommand):
    """A command whose required options may be given by position, in the order of their declaration."""

    def places(self) -> list[TyperOption]:
        return [option for option in self.params if isinstance(option, TyperOption) and option.required]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._named(args))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), *(place_name(option) for option in self.places())]

    def _named(self, args: Sequence[str]) -> list[str]:
        """Return the words with an option name before each that has none; surplus words stay as they are."""
        takes_value = {
            name: not option.is_flag
            for option in self.params
            if isinstance(option, TyperOption)
            for name in (*option.opts, *option.secondary_opts)
        }
        words, unnamed = _sorted_out(args, takes_value)
        free = [option.opts[0] for option in self.places() if not _is_given(option, words)]
        named = [f"{name}={word}" for name, word in zip(free, unnamed, strict=False)]
        # They go first, because the last of the others may lack its value.
        return [*named, *words, *(["--", *unnamed[len(free) :]] if len(unnamed) > len(free) else [])]


def place_name(option: TyperOption) -> str:
    return option.opts[0].removeprefix("--").replace("-", "_").upper()


def _sorted_out(args: Sequence[str], takes_value: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Split the words into options with their values, and the words between them."""
    words: list[str] = []
    unnamed: list[str] = []
    left = list(args)
    while left:
        word = left.pop(0)
        if word == "--":
            unnamed += left
            break
        if not word.startswith("--"):
            unnamed.append(word)
            continue
        words.append(word)
        if takes_value.get(word) and left:
            words.append(left.pop(0))
    return words, unnamed


def _is_given(option: TyperOption, words: Sequence[str]) -> bool:
    return any(word == name or word.startswith(f"{name}=") for name in option.opts for word in words)

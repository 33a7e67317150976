"""Fields by position: `get user:alice name` means `get --namespace user:alice --key name`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from typer.core import TyperCommand, TyperOption

from hivemem.cli.usage_errors import option_names

BY_POSITION: Final = "By position, in this order, or by name"
"""The box in help for options that may be given by position; it is what makes an option a place."""
HELP: Final = ("-h", "--help")


class OperationCommand(TyperCommand):
    """A command with options that may be given by position, in the order of their declaration."""

    def places(self) -> list[TyperOption]:
        options = (option for option in self.params if isinstance(option, TyperOption))
        return [option for option in options if option.rich_help_panel == BY_POSITION]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words, free = self.named(args)
        missing = [f"{place_name(option)} ({option.opts[0]})" for option in free if option.required]
        # An unknown option is the error that the parser raises, and often explains what is missing.
        known = {*HELP, "--", *option_names(self)}
        unknown = any(word.startswith("--") and word.partition("=")[0] not in known for word in words)
        if missing and not unknown and not ctx.resilient_parsing and not any(word in HELP for word in args):
            ctx.fail(f"Missing {' and '.join(missing)}.")
        return super().parse_args(ctx, words)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        shown = [place_name(option) if option.required else f"[{place_name(option)}]" for option in self.places()]
        return [*super().collect_usage_pieces(ctx), *shown]

    def named(self, args: Sequence[str]) -> tuple[list[str], list[TyperOption]]:
        """Return the words with an option name before each that has none, and the places that are still free.

        Surplus words stay as they are.
        """
        takes_value = {
            name: not option.is_flag
            for option in self.params
            if isinstance(option, TyperOption)
            for name in (*option.opts, *option.secondary_opts)
        }
        words, unnamed = _sorted_out(args, takes_value)
        free = [option for option in self.places() if not _is_given(option, words)]
        named = [f"{option.opts[0]}={word}" for option, word in zip(free, unnamed, strict=False)]
        # They go first, because the last of the others may lack its value.
        surplus = ["--", *unnamed[len(free) :]] if len(unnamed) > len(free) else []
        return [*named, *words, *surplus], free[len(unnamed) :]


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
        if not word.startswith("--") and word not in takes_value and word not in HELP:
            unnamed.append(word)
            continue
        words.append(word)
        if takes_value.get(word) and left:
            words.append(left.pop(0))
    return words, unnamed


def _is_given(option: TyperOption, words: Sequence[str]) -> bool:
    return any(word == name or word.startswith(f"{name}=") for name in option.opts for word in words)

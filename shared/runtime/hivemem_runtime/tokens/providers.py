"""The counters by provider."""

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.nearest_name import suggestion
from hivemem_runtime.tokens.byte_pairs import encoding
from hivemem_runtime.tokens.counter import Overhead, TokenCounter
from hivemem_runtime.tokens.estimate import estimated_tokens

_OPENAI: Final = Overhead(message=3, name=1, tool_call=8, image=1_105, reply=3)
_ANTHROPIC: Final = Overhead(message=4, name=2, tool_call=16, image=1_600, reply=4)
_GEMINI: Final = Overhead(message=4, name=2, tool_call=16, image=1_290, reply=4)
_CHATML: Final = Overhead(message=5, name=2, tool_call=16, image=1_600, reply=4)

_MODELS: Final = {
    "o200k": re.compile(r"(?:ft:)?(?:o1|o3|o4-mini|gpt-5|gpt-4\.[15]|(?:chat)?gpt-4o|gpt-oss)(?:[-.:].*)?"),
    "cl100k": re.compile(
        r"(?:ft:)?(?:gpt-4|gpt-3\.5|gpt-35-turbo|davinci-002|babbage-002"
        r"|text-embedding-(?:ada-002|3-small|3-large))(?:[-:].*)?"
    ),
}
_SHOWN: Final = ("openai:o200k", "openai:cl100k", "openai:gpt-5", "openai:gpt-4o", "openai:gpt-4")

_ANTHROPIC_MARGIN: Final = 1.7
"""The one tokenizer that Anthropic has published, of Claude 2, makes 1.0 to 1.2 times the tokens of cl100k in English
prose, code and JSON, up to 1.4 times in nine other languages, and twice as many in Thai. The newest is said to make
1.35 times as many as before; users have measured 1.47 times in English."""

_GEMINI_MARGIN: Final = 1.3
"""Gemma's tokenizer makes up to 1.26 times the tokens of o200k in the same texts, once each digit is one of its own.
Only long runs of one mark take more."""
_DIGIT: Final = re.compile(r"\d")
_MORE_OF_A_DIGIT: Final = 2 / 3  # o200k takes three together


def token_counter(
    provider: str, files: Mapping[str, Path] | None = None, field: str = "token_provider"
) -> TokenCounter:
    """Return the counter of a provider.

    Providers are `openai:` with an encoding (`o200k`, `cl100k`) or a model, `anthropic` and `gemini` with or without a
    model, `huggingface:` with a name in `files`, which maps names to tokenizer.json files, and `estimate`. Raises
    `InvalidRequest`, naming the `field`, for others. A first call reads a vocabulary, which takes about 0.1 s.
    """
    maker, _, model = provider.partition(":")
    if maker == "openai":
        for name, models in _MODELS.items():
            if model == name or models.fullmatch(model):
                return TokenCounter(provider, True, encoding(name).count, _OPENAI)
    elif maker == "huggingface" and model in (files or {}):
        from hivemem_runtime.tokens.huggingface import tokenizer_count  # its library is an extra

        return TokenCounter(provider, True, tokenizer_count((files or {})[model]), _CHATML)
    elif maker == "anthropic":
        return TokenCounter(provider, False, _anthropic(), _ANTHROPIC)
    elif maker == "gemini":
        return TokenCounter(provider, False, _gemini(), _GEMINI)
    elif provider == "estimate":
        return TokenCounter(provider, False, estimated_tokens, _CHATML)
    known = (*_SHOWN, "anthropic", "gemini", "estimate", *(f"huggingface:{name}" for name in files or {}))
    raise InvalidRequest(
        f"{field}: there is no provider {provider!r}{suggestion(provider, known)}; known are {', '.join(known)}",
        field=field,
    )


@cache
def _anthropic() -> Callable[[str], int]:
    base = encoding("cl100k").count
    return lambda text: math.ceil(_ANTHROPIC_MARGIN * base(text))


@cache
def _gemini() -> Callable[[str], int]:
    base = encoding("o200k").count

    def count(text: str) -> int:
        digits = len(_DIGIT.findall(text))
        return math.ceil(_GEMINI_MARGIN * (base(text) + _MORE_OF_A_DIGIT * digits))

    return count

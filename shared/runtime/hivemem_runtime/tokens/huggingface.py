"""Tokenizers in the format of Hugging Face, from files that the operator names."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from hivemem_contracts.errors import Unavailable


@cache
def tokenizer_count(file: Path) -> Callable[[str], int]:
    """Return the count of the tokenizer in a tokenizer.json. Raises `Unavailable` for a file that cannot be used."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise Unavailable("tokenizers of Hugging Face need the package hivemem-runtime[tokenizers]") from error
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises no other class
        raise Unavailable(f"{file.name}: this tokenizer cannot be used: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return count

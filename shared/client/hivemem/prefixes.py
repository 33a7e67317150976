"""Checks the prefix of a feed. A prefix that no change can have is an error, which says what was meant."""

from collections.abc import Sequence
from typing import Final

from hivemem_contracts.catalog import CHANGES
from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import NAMESPACE_ROOTS
from hivemem_contracts.limits import SUBJECT_BYTES
from hivemem_contracts.nearest_name import nearest_name
from hivemem_contracts.sizes import check_size
from hivemem_contracts.subjects import KEY_MARKER, change_filters, checked, decode_token, encode_token

_KINDS: Final = {kind.entity: kind for kind in CHANGES}
"""One kind of change for each entity; all of them have the same addresses."""

_ENTITIES: Final = ", ".join(_KINDS)
_OF_NAMESPACES: Final = next(kind.entity for kind in CHANGES if kind.address[0] == "namespace")
_SUBJECT: Final = "hive."
_SHOWN_CHARACTERS: Final = 120


def feed_filters(tenant: str, prefix: str | None) -> tuple[str, ...]:
    """Return the subjects that a feed follows: at and below a prefix, or below a whole subject, or all of a tenant's.

    Raises `InvalidRequest` for a prefix that no change can have. A whole subject is followed as it is, so that the
    changes of a newer fleet are in reach.
    """
    check_size("prefix", len(prefix or ""), SUBJECT_BYTES)
    if prefix and prefix.startswith(_SUBJECT):
        return _subject_filters(tenant, prefix)
    if prefix:
        _check(prefix, tenant)
    return change_filters(tenant, prefix)


def _subject_filters(tenant: str, subject: str) -> tuple[str, ...]:
    start = f"hive.chg.{encode_token(tenant)}"
    if not f"{subject}.".startswith(f"{start}."):
        raise _refused(f"the subjects of the tenant's changes begin with {start}, got {_shown(subject)}")
    tokens = subject.split(".")
    if ">" in tokens[:-1]:
        raise _refused(f"'>' stands at the end of a subject, got {_shown(subject)}")
    for token in tokens:
        if token not in ("*", ">", KEY_MARKER):
            _decoded(token, subject)
    return (subject,) if tokens[-1] == ">" else (subject, checked(f"{subject}.>"))


def _check(prefix: str, tenant: str) -> None:
    """Raise `InvalidRequest` unless some change can have an address that begins with the prefix."""
    entity, *tokens = prefix.split(".")
    kind = _KINDS.get(entity)
    if kind is None:
        raise _unknown_entity(entity, prefix, tenant)
    before, marker, after = _split(tokens)
    if marker and not kind.keyed:
        raise _refused(f"an address of {_shown(entity)} has no key, got {_shown(prefix)}")
    if len(after) > 1:
        raise _refused(f"nothing comes after a key, got {_shown(prefix)}")
    if kind.address[0] == "namespace":
        _check_namespace(before, prefix, whole=marker)
    else:
        _check_parts(kind, before, prefix, whole=marker)
    if any(not _decoded(token, prefix) for token in after):
        raise _refused(f"a key is not empty, got {_shown(prefix)}")


def _split(tokens: Sequence[str]) -> tuple[Sequence[str], bool, Sequence[str]]:
    """Return the tokens before the key marker, whether there is one, and the tokens after it."""
    if KEY_MARKER not in tokens:
        return tokens, False, ()
    place = tokens.index(KEY_MARKER)
    return tokens[:place], True, tokens[place + 1 :]


def _check_namespace(tokens: Sequence[str], prefix: str, *, whole: bool) -> None:
    segments: list[str] = []
    for token in tokens:
        if ":" in token or ":" in _decoded(token, prefix):
            meant = prefix.replace("%3A", ".").replace(":", ".")
            raise _refused(f"each segment of a namespace is a token: did you mean {_shown(meant)}?")
        segments.append(_decoded(token, prefix))
    if segments and segments[0] not in NAMESPACE_ROOTS:
        roots = ", ".join(NAMESPACE_ROOTS)
        raise _refused(f"a namespace starts with one of {roots}, got {_shown(segments[0])} in {_shown(prefix)}")
    if "" in segments:
        raise _refused(f"a namespace has no empty segments, got {_shown(prefix)}")
    if whole and len(segments) < 2:
        raise _refused(f"a namespace has at least two segments, got {_shown(prefix)}")


def _check_parts(kind: ChangeKind, tokens: Sequence[str], prefix: str, *, whole: bool) -> None:
    names = kind.address[: len(kind.address) - kind.keyed]
    has = f"an address of {kind.entity!r} has {' and '.join(names)}"
    if len(tokens) > len(names):
        has += f", and {kind.address[-1]} after {KEY_MARKER}" if kind.keyed else " and no more"
        raise _refused(f"{has}; got {_shown(prefix)}")
    if whole and len(tokens) < len(names):
        raise _refused(f"{has} before {KEY_MARKER}, got {_shown(prefix)}")
    for name, token in zip(names, tokens, strict=False):
        text = _decoded(token, prefix)
        if not text:
            raise _refused(f"{name} is not empty, got {_shown(prefix)}")
        if name == names[0] and kind.starts and text not in kind.starts:
            raise _refused(f"{name} is one of {', '.join(kind.starts)}, got {_shown(text)} in {_shown(prefix)}")


def _decoded(token: str, prefix: str) -> str:
    """Return the text of a token, or raise the error with the right spelling."""
    if token in ("*", ">"):
        raise _refused(f"a prefix has no wildcards, since it covers all addresses below it; got {_shown(prefix)}")
    try:
        return decode_token(token)
    except InvalidRequest:
        if not token:
            raise _refused(f"a token is missing in {_shown(prefix)}") from None
        if token == KEY_MARKER:
            raise _refused(f"{KEY_MARKER!r} stands once, before the key, got {_shown(prefix)}") from None
        meant = ".".join(encode_token(part) if part == token else part for part in prefix.split("."))
        problem = f"{_shown(token)} is not an escaped token: did you mean {_shown(meant)}?"
        raise _refused(f"{problem} `hivemem.prefix` escapes any text") from None


def _unknown_entity(entity: str, prefix: str, tenant: str) -> InvalidRequest:
    dotted = prefix.replace(":", ".")
    first, _, rest = dotted.partition(".")
    meant: list[str] = []
    close = first if first in _KINDS else nearest_name(first.lower(), _KINDS)
    if close is not None:
        meant.append(f"{close}.{rest}" if rest else close)
    if first in NAMESPACE_ROOTS:
        meant.append(f"{_OF_NAMESPACES}.{dotted}")
    if ":" in prefix and first in NAMESPACE_ROOTS:
        return _refused(f"{_shown(prefix)} is a namespace: did you mean {' or '.join(map(_shown, meant))}?")
    problem = f"no change has the entity {_shown(entity)}"
    problem += f": did you mean {' or '.join(map(_shown, meant))}?" if meant else f". The entities are {_ENTITIES}."
    return _refused(f"{problem} An entity of a newer fleet has the subject hive.chg.{encode_token(tenant)}.<entity>")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")


def _refused(problem: str) -> InvalidRequest:
    return InvalidRequest(f"prefix: {problem}", field="prefix")

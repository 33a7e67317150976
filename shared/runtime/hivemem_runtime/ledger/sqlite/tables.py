"""How a kind of thing is laid out in its tables, and the statements that write them."""

from typing import Any, Final

from hivemem_runtime.ledger.entity import AnyEntity, Index, Scalar

RECORD_COLUMNS: Final = (
    "version",
    "at",
    "actor",
    "cause",
    "traceparent",
    "schema",
    "body",
    "snapshot",
    "position",
)
PRESENT: Final = "present"
"""A column of the heads that is true while the key is not erased, where an index has nothing else to tell it by."""
_HEAD_COLUMNS: Final = ("version", "at", "announced", "schema", "body")
_TRUE: Final = b"\x01"
_FALSE: Final = b"\x00"


class Table:
    """The names and statements of an entity's tables, computed once because every write needs them."""

    def __init__(self, entity: AnyEntity) -> None:
        self.entity = entity
        self.name = entity.name
        found = (name for index in entity.indexes for name in (*index.equals, index.order, index.only) if name)
        self._found = tuple(dict.fromkeys(found))
        self._covered = tuple(dict.fromkeys(name for index in entity.indexes for name in index.covering))
        self._present = (True,) if any(needs_present(index) for index in entity.indexes) else ()
        self.index_columns = (
            *map(column, self._found),
            *map(covering_column, self._covered),
            *((PRESENT,) if self._present else ()),
        )
        self.unindexed: tuple[Any, ...] = (None,) * len(self.index_columns)
        """The index columns of an erased key."""
        self.tag_columns = tuple(map(tag_column, entity.tag_fields))
        self.record_columns = ", ".join([*RECORD_COLUMNS, *self.tag_columns])
        heads = ", ".join(["key", "tenant", "id", *_HEAD_COLUMNS, *self.index_columns])
        self.insert_heads = f"INSERT OR FAIL INTO {self.name}_heads ({heads})"
        self.insert_records = f"INSERT OR FAIL INTO {self.name}_records (key, requests, {self.record_columns})"

    def indexed(self, value: Any) -> tuple[Any, ...]:
        """Return the index columns of a head."""
        fields = self.entity.indexed(value)
        found = tuple(map(fields.get, self._found))
        if not self._covered:
            return found + self._present
        return found + tuple([_kept(fields.get(name)) for name in self._covered]) + self._present

    def update_heads(self, changed: tuple[int, ...]) -> tuple[str, str]:
        """Return the parts of the statement before and after its rows, each of which begins with its key. It sets only
        the index columns that changed, because SQLite rewrites an index for every column that a statement names."""
        columns = [*_HEAD_COLUMNS, *(self.index_columns[place] for place in changed)]
        settings = ", ".join(f"{name} = new.new_{name}" for name in columns)
        return (
            f"WITH new (new_key, {', '.join(f'new_{name}' for name in columns)}) AS (",
            f") UPDATE OR FAIL {self.name}_heads SET {settings} FROM new WHERE key = new_key",
        )


def changes(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[int, ...]:
    """The places at which two rows of index columns differ."""
    return tuple([place for place, value in enumerate(after) if value != before[place]])


def _kept(value: Scalar) -> Any:
    """SQLite has no booleans, and a covering column has to give back what was put in."""
    if value is True:
        return _TRUE
    return _FALSE if value is False else value


def given_back(value: Any) -> Scalar:
    found: Scalar = value == _TRUE if isinstance(value, bytes) else value
    return found


def needs_present(index: Index) -> bool:
    return not index.equals and index.order is None and index.only is None


def column(field: str) -> str:
    return f"x_{field}"


def covering_column(field: str) -> str:
    return f"c_{field}"


def tag_column(tag: str) -> str:
    return f"g_{tag}"


def index_name(entity: AnyEntity, index: Index) -> str:
    return f"{entity.name}_by_{index.name}"

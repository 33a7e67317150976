"""Numbers with their nouns."""


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as "1 event" and "2 events"."""
    return f"1 {one}" if count == 1 else f"{count:,} {many or f'{one}s'}"

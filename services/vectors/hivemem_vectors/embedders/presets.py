"""Models of the hub under short names, each with the prefixes that it was trained with."""

from typing import Final, NamedTuple

_SEARCHING: Final = "Represent this sentence for searching relevant passages: "


class Preset(NamedTuple):
    """A model, what it wants before questions and passages, and its file in the hub if fastembed does not list it."""

    model: str
    dimension: int
    query_prefix: str = ""
    passage_prefix: str = ""
    file: str | None = None


PRESETS: Final = {
    "arctic-s": Preset("snowflake/snowflake-arctic-embed-s", 384, _SEARCHING),
    "arctic-xs": Preset("snowflake/snowflake-arctic-embed-xs", 384, _SEARCHING),
    "bge-base": Preset("BAAI/bge-base-en-v1.5", 768, _SEARCHING),
    "bge-small": Preset("BAAI/bge-small-en-v1.5", 384, _SEARCHING),
    "e5-small": Preset("intfloat/e5-small", 384, "query: ", "passage: ", "model.onnx"),
    "granite-small": Preset("ibm-granite/granite-embedding-small-english-r2", 384),
    "multilingual-e5-small": Preset("intfloat/multilingual-e5-small", 384, "query: ", "passage: ", "onnx/model.onnx"),
    "nomic": Preset("nomic-ai/nomic-embed-text-v1.5-Q", 768, "search_query: ", "search_document: "),
}

"""A cross-encoder small enough to be written here: the logit of a pair is its number of tokens, negated."""

import json
from collections.abc import Sequence
from pathlib import Path

from hivemem_vectors.embedders.offline.word_pieces import TOKENS_PER_TEXT

from ..reference_tokenizer import reference_tokenizer

FLOAT, INT64 = 1, 7


def write_model(folder: Path) -> None:
    """Write the files that fastembed reads, in the format of ONNX."""
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(_model())
    reference_tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"model_max_length": TOKENS_PER_TEXT, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _model() -> bytes:
    nodes = [
        _node("Cast", "attention_mask", "read", _attribute("to", _number(3, FLOAT), 2)),
        _node("ReduceSum", "read", "count", _attribute("axes", _number(8, 1), 7)),
        _node("Neg", "count", "logits"),
    ]
    given = [_value(11, name, INT64, ("texts", "tokens")) for name in ("input_ids", "attention_mask")]
    graph = b"".join([*nodes, _bytes(2, b"tiny"), *given, _value(12, "logits", FLOAT, ("texts", "one"))])
    return _number(1, 7) + _bytes(8, _number(2, 11)) + _bytes(7, graph)


def _node(operator: str, given: str, result: str, *attributes: bytes) -> bytes:
    fields = [_bytes(1, given.encode()), _bytes(2, result.encode()), _bytes(4, operator.encode()), *attributes]
    return _bytes(1, b"".join(fields))


def _attribute(name: str, value: bytes, kind: int) -> bytes:
    return _bytes(5, _bytes(1, name.encode()) + value + _number(20, kind))


def _value(field: int, name: str, kind: int, shape: Sequence[str]) -> bytes:
    dimensions = b"".join([_bytes(1, _bytes(2, dimension.encode())) for dimension in shape])
    tensor = _number(1, kind) + _bytes(2, dimensions)
    return _bytes(field, _bytes(1, name.encode()) + _bytes(2, _bytes(1, tensor)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])

"""Names of the basic types, under which the documents explain them once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

NAMED: Final = "x-named"
"""The keyword that carries a named type to the generator of the documents, which replaces it by a reference."""


@dataclass(frozen=True, slots=True)
class NamedType:
    """Annotates a type with its name and meaning.

    `rules` are keywords of JSON Schema for the rules of the type's validator. The text has the rules that no schema can
    express.
    """

    name: str
    text: str
    rules: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), **self.rules, NAMED: {"name": self.name, "description": self.text}}

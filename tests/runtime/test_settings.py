"""Settings come from the environment and a file, nested ones too, and an error names the setting."""

import os
import traceback
from pathlib import Path

import pytest

from hivemem_runtime.program import WorkerKind, installed_workers
from hivemem_runtime.settings import SettingsError, WorkerSettings, load


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HIVEMEM_")]:
        monkeypatch.delenv(name)


def test_there_is_a_default_for_everything() -> None:
    settings = load(WorkerSettings)
    assert (settings.store, settings.nats_url, settings.http_port) == ("sqlite", "nats://127.0.0.1:4222", 8222)
    assert settings.streams.partitions == 8


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVEMEM_STORE", "mongo")
    monkeypatch.setenv("HIVEMEM_HTTP_PORT", "0")
    monkeypatch.setenv("HIVEMEM_STREAMS__REPLICAS", "3")
    monkeypatch.setenv("HIVEMEM_STREAMS__DUPLICATE_WINDOW_SECONDS", "2.5")
    settings = load(WorkerSettings)
    assert (settings.store, settings.http_port) == ("mongo", 0)
    assert (settings.streams.replicas, settings.streams.duplicate_window_seconds) == (3, 2.5)


def test_the_file_is_read_and_the_environment_goes_before_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "hive.toml"
    file.write_text('store = "mongo"\nhttp_port = 1\n[streams]\nreplicas = 3\npartitions = 4\n')
    monkeypatch.setenv("HIVEMEM_CONFIG", str(file))
    monkeypatch.setenv("HIVEMEM_HTTP_PORT", "2")
    monkeypatch.setenv("HIVEMEM_STREAMS__REPLICAS", "5")
    settings = load(WorkerSettings)
    assert (settings.store, settings.http_port) == ("mongo", 2)
    assert (settings.streams.replicas, settings.streams.partitions) == (5, 4)


def test_what_is_given_goes_before_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVEMEM_HTTP_PORT", "2")
    assert load(WorkerSettings, http_port=3).http_port == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HIVEMEM_STORE", "postgres"),
        ("HIVEMEM_HTTP_PORT", "70000"),
        ("HIVEMEM_HTTP_PORT", "http"),
        ("HIVEMEM_LOG_LEVEL", "loud"),
        ("HIVEMEM_REQUESTS_UNDER_WAY", "0"),
        ("HIVEMEM_REQUEST_MEMORY_SECONDS", "1"),
        ("HIVEMEM_MONGO_DATABASE", "a/b"),
        ("HIVEMEM_STREAMS__REPLICAS", "9"),
        ("HIVEMEM_STREAMS__UNKNOWN", "1"),
        ("HIVEMEM_STREAMSS__REPLICAS", "1"),
        ("HIVEMEM_STORE__REPLICAS", "1"),
        ("hivemem_stoer", "mongo"),
    ],
)
def test_what_is_wrong_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        load(WorkerSettings)
    assert str(refused.value).startswith(name)


@pytest.mark.parametrize(
    ("misspelt", "nearest"),
    [
        ("HIVEMEM_STOER", "HIVEMEM_STORE"),
        ("HIVEMEM_STREAMS__REPLICA", "HIVEMEM_STREAMS__REPLICAS"),
        ("HIVEMEM_MINIO_BUKET", "HIVEMEM_MINIO_BUCKET"),
        ("HIVEMEM_CONFG", "HIVEMEM_CONFIG"),
        ("HIVEMEM_EXPIRES_EVERY", "HIVEMEM_EXPIRE_EVERY"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch, misspelt: str, nearest: str
) -> None:
    monkeypatch.setenv(misspelt, "1")
    with pytest.raises(SettingsError, match=f"^{misspelt}: there is no such setting; the nearest name is {nearest}$"):
        load(WorkerSettings, [AnotherWorker])


@pytest.mark.parametrize(
    "variable",
    ["HIVEMEM_URL", "HIVEMEM_TENANT", "HIVEMEM_AGENT", "HIVEMEM_MINIO_TAG", "HIVEMEM_TEST_SEED", "HIVEMEM_BENCH_SIZE"],
)
def test_a_variable_of_a_client_of_compose_or_of_the_tests_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert load(WorkerSettings) == WorkerSettings()


@pytest.mark.parametrize("kind", installed_workers(), ids=lambda kind: kind.contract.name)
def test_workers_may_share_an_environment_and_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: WorkerKind[WorkerSettings]
) -> None:
    """A container has one worker installed, and its environment may have the settings of all."""
    file = tmp_path / "hive.toml"
    file.write_text('blobs = "minio"\n')
    monkeypatch.setenv("HIVEMEM_CONFIG", str(file))
    for other in installed_workers():
        for name, field in other.settings.model_fields.items():
            if name not in (kind.settings.model_fields if kind is not other else {"streams"}):
                monkeypatch.setenv(f"HIVEMEM_{name.upper()}", f"{field.get_default()}")
    assert load(kind.settings).store == "sqlite"


def test_several_servers_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVEMEM_NATS_URL", "nats://a:4222, tls://b")
    assert load(WorkerSettings).nats_url == "nats://a:4222,tls://b"


def test_a_wrong_server_is_named_without_any_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVEMEM_NATS_URL", "nats://me:secret@a,http://me:secret@b")
    with pytest.raises(
        SettingsError, match=r"HIVEMEM_NATS_URL='nats://a,http://b': .*'http://b' \(server 2 of 2\)"
    ) as wrong:
        load(WorkerSettings)
    assert "secret" not in "".join(traceback.format_exception(wrong.value))


def test_a_nested_setting_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVEMEM_STREAMS", "{")
    with pytest.raises(SettingsError, match="streams"):
        load(WorkerSettings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'store = "postgres"', "HIVEMEM_STORE='postgres'"),
        (b"surprise = 1", "HIVEMEM_SURPRISE=1"),
        (b"[streams]\nreplicas = 'many'", "HIVEMEM_STREAMS__REPLICAS='many'"),
        (b"store =", "not TOML"),
        (b"store = '\xff'", "not TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: bytes, said: str
) -> None:
    file = tmp_path / "hive.toml"
    file.write_bytes(text)
    monkeypatch.setenv("HIVEMEM_CONFIG", str(file))
    with pytest.raises(SettingsError) as refused:
        load(WorkerSettings)
    assert said in str(refused.value)


class OneWorker(WorkerSettings):
    archive_after: int = 1


class AnotherWorker(WorkerSettings):
    expire_every: int = 2


def test_workers_may_share_a_file_but_nothing_in_it_is_nobodys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "hive.toml"
    file.write_text("archive_after = 10\nexpire_every = 20\n")
    monkeypatch.setenv("HIVEMEM_CONFIG", str(file))
    kinds = (OneWorker, AnotherWorker)
    assert (load(OneWorker, kinds).archive_after, load(AnotherWorker, kinds).expire_every) == (10, 20)
    with pytest.raises(SettingsError, match="HIVEMEM_EXPIRE_EVERY=20"):
        load(OneWorker)
    file.write_text("archive_after = 10\nexpire_evry = 20\n")
    for kind in kinds:
        with pytest.raises(SettingsError, match="HIVEMEM_EXPIRE_EVRY=20"):
            load(kind, kinds)


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIVEMEM_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(SettingsError, match=r"HIVEMEM_CONFIG=.*missing\.toml: there is no such file"):
        load(WorkerSettings)

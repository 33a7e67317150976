"""The rows of the table of files."""

from typing import Final

from benchmarks.rows import Row

STORES: Final = {"sqlite": "Hivemem, SQLite and files", "mongo": "Hivemem, MongoDB and MinIO"}
PEERS: Final = {
    "nats": "raw NATS, the same chunks",
    "copy": "a copy of the file",
    "minio": "the bare minio client",
    "git": "git commit",
    "cp": "cp -r",
}

ROWS: Final = (
    Row("a large file up, over the bus", "upload", better="more", marks=(150, 150)),
    Row("  the client grows by", "upload, client grows", marks=(64, 64)),
    Row("  the worker grows by", "upload, worker grows", marks=(64, 64)),
    Row("a large file down, over the bus", "download", better="more", marks=(150, 150)),
    Row("  the client grows by", "download, client grows", marks=(64, 64)),
    Row("  the worker grows by", "download, worker grows", marks=(64, 64)),
    Row("files of 4 KiB, 50 at once", "small files", better="more", marks=(1_500, 1_500)),
    Row("a presigned upload: the transfer", "presigned up", better="more", marks=(0.9, 0.9), times=True),
    Row("  until it is committed", "presigned up, committed", better="more", against="presigned up"),
    Row("a presigned download: the transfer", "presigned down", better="more", marks=(0.9, 0.9), times=True),
    Row("a workspace of files of 4 KiB, first snapshot", "first snapshot", better="more"),
    Row("  a snapshot without changes", "unchanged snapshot", better="more", marks=(5_000, 5_000)),
    Row("  a snapshot after one change", "snapshot after a change", better="more"),
    Row("  restored", "folder restored", better="more"),
    Row("a workspace of 1 GiB, restored", "large folder restored", better="more", marks=(150, 150)),
)

"""The blob store in a folder of the local file system, with hard links that people can browse."""

from hivemem_artifacts.adapters.filesystem.store import FilesystemBlobs

__all__ = ["FilesystemBlobs"]

"""Blobs in a folder of the local file system, with links for people to find them by."""

from hivemem_artifacts.adapters.filesystem.store import FilesystemBlobs

__all__ = ["FilesystemBlobs"]

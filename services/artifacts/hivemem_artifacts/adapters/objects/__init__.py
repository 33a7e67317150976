"""Blobs as objects in a bucket of MinIO, or of any store that speaks S3."""

from hivemem_artifacts.adapters.objects.store import ObjectBlobs

__all__ = ["ObjectBlobs"]

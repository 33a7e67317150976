"""The blob store in a bucket of MinIO or another S3-compatible store."""

from hivemem_artifacts.adapters.objects.store import ObjectBlobs

__all__ = ["ObjectBlobs"]

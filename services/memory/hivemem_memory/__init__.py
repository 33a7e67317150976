"""The Hivemem worker that keeps memories."""

"""The heart: numbered, immutable records appended to keys, heads projected from them, announcements of them."""

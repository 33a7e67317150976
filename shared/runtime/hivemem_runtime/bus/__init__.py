"""The bus: a connection, its streams, requests, durable commands, announcements and reactions."""

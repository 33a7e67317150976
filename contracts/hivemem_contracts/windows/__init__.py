"""The windows service: conversations that agents share, within a budget of tokens or messages."""

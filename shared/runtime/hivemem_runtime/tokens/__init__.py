"""Token counts: exact ones where the provider publishes its tokenizer, estimates on the safe side elsewhere."""

from hivemem_runtime.tokens.counter import Message, TokenCounter
from hivemem_runtime.tokens.estimate import estimated_tokens
from hivemem_runtime.tokens.providers import token_counter

__all__ = ["Message", "TokenCounter", "estimated_tokens", "token_counter"]

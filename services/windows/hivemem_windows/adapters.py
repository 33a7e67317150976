"""The model of summaries behind any endpoint that speaks OpenAI's `/v1/chat/completions`."""

from typing import Any, Final

import orjson

from hivemem_runtime.openai_http import OpenAIEndpoint

BYTES_PER_TOKEN: Final = 64


class OpenAIModel:
    """`url` is the part before `/chat/completions`, such as `http://127.0.0.1:11434/v1`."""

    def __init__(self, url: str, model: str, **options: Any) -> None:
        """The options are passed on to `OpenAIEndpoint`."""
        self._model = model
        self._endpoint = OpenAIEndpoint(f"{url.rstrip('/')}/chat/completions", model, **options)

    async def complete(self, prompt: str, text: str, max_tokens: int) -> str:
        messages = [{"role": "system", "content": prompt}, {"role": "user", "content": text}]
        body = {"model": self._model, "messages": messages, "max_tokens": max_tokens, "temperature": 0}
        return await self._endpoint.post(body, _text_of, most_bytes=max_tokens * BYTES_PER_TOKEN, field="messages")

    async def close(self) -> None:
        await self._endpoint.close()


def _text_of(answer: bytes) -> str:
    """Return the text of an answer. Raises ValueError, TypeError or KeyError for any other."""
    choices = orjson.loads(answer)["choices"]
    if not choices:
        raise ValueError("no choice")
    content = choices[0]["message"]["content"]
    if not isinstance(content, str):
        raise TypeError("a content that is no text")
    return content

"""Waits until a tenant's audit chain includes all changes so far."""

from .hive import Agent, eventually


async def chain_is_current(bot: Agent) -> None:
    async def current() -> bool:
        return bool((await bot.ask("audit", limit=1))["behind"] == 0)

    await eventually(current, "the chain has everything")

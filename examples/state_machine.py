"""A purchase that follows rules: a state machine with guards says which events a session accepts, and when.

Start the fleet with `hivemem up`, then run this file. Set HIVEMEM_URL to use a server other than the local one.
"""

import asyncio

import hivemem
from hivemem import Machine, NewEvent, Transition

# Guards are CEL over the session's `state` before the event. A guard that cannot be evaluated does not hold.
PURCHASE = Machine(
    initial="wanted",
    states=["wanted", "offered", "approved", "ordered", "dropped"],
    transitions=[
        Transition(source="wanted", event="offer", target="offered", when="event.content.price > 0.0"),
        Transition(source="offered", event="offer", target="offered", when="event.content.price > 0.0"),
        # Two transitions for one event: the first whose guard holds is taken, so cheap offers need no approval.
        Transition(source="offered", event="order", target="ordered", when="state.price <= state.budget"),
        Transition(source="offered", event="approve", target="approved", when="event.author == 'boss'"),
        Transition(source="approved", event="order", target="ordered"),
        Transition(source="wanted", event="drop", target="dropped"),
        Transition(source="offered", event="drop", target="dropped"),
    ],
)


async def say(hive: hivemem.Hive, session_id: str, event: NewEvent, price: int | None = None) -> None:
    """Append an event, and show the new state, or why the event is refused."""
    try:
        await hive.sessions.append(
            session_id=session_id, event=event, state_delta=None if price is None else {"price": price}
        )
    except hivemem.IllegalTransition as refusal:
        why = f"unless {' or '.join(refusal.context['guards'])}" if refusal.context["guards"] else "at all"
        print(f"{event.author} may not {event.type} now {why}; allowed: {', '.join(refusal.context['allowed'])}")
        return
    view = await hive.sessions.get(session_id=session_id)
    assert view.session.machine is not None
    print(f"{event.author}: {event.type} -> {view.session.machine.state}")


async def main() -> None:
    async with hivemem.connect(agent="buyer") as hive:
        await hive.sessions.machine_put(name="purchase", definition=PURCHASE)
        session = await hive.sessions.create(
            app_name="shop", user_id="dave", machine="purchase", initial_state={"budget": 100}
        )
        session_id = session.session_id

        await say(hive, session_id, NewEvent(type="order", author="buyer"))
        await say(hive, session_id, NewEvent(type="offer", author="seller", content={"price": 250}), price=250)
        await say(hive, session_id, NewEvent(type="order", author="buyer"))
        await say(hive, session_id, NewEvent(type="approve", author="buyer"))
        await say(hive, session_id, NewEvent(type="approve", author="boss"))

        # What if the offer had been a better one? A fork goes back to the revision before it, machine included.
        fork = await hive.sessions.fork(session_id=session_id, revision=1)
        cheap = NewEvent(type="offer", author="seller", content={"price": 80})
        await say(hive, fork.session_id, cheap, price=80)
        await say(hive, fork.session_id, NewEvent(type="order", author="buyer"))

        await say(hive, session_id, NewEvent(type="order", author="buyer"))
        events = await hive.sessions.events(session_id=session_id)
        print("done:", ", ".join(event.type for event in events.items))


if __name__ == "__main__":
    asyncio.run(main())

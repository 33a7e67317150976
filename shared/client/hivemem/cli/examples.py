"""The examples at the end of each help, as they are typed after `hivemem`.

They tell one story: in this order, they work in a new fleet. A test runs them.
"""

from typing import Any, Final

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "up": ("up", "up --data ~/hive --nats-port 4333"),
    "doctor": ("doctor",),
    "version": ("version", "--json version"),
    "bench": ("bench --sessions 10 --seconds 2", "bench --durable"),
    "sessions": ("sessions list", "sessions create --help"),
    "sessions create": (
        "sessions create travel alice --session-id trip-1",
        """sessions create travel bob --initial-state '{"goal": "Rome"}'""",
    ),
    "sessions append": (
        """sessions append trip-1 '{"type": "message", "content": "hello"}'""",
        "sessions append trip-1 @event.json --message-id once-only",
    ),
    "sessions append-batch": ("sessions append-batch @appends.json",),
    "sessions get": ("sessions get trip-1 --events 10", "sessions get trip-1 --revision 1"),
    "sessions events": (
        "sessions events trip-1 --type message --limit 20",
        "sessions events trip-1 --reverse --since 2026-01-31T09:00:00Z",
    ),
    "sessions state-set": ("""sessions state-set trip-1 goal '"Rome"'""", "sessions state-set trip-1 budget 900"),
    "sessions state-get": ("sessions state-get trip-1 --key goal", "sessions state-get --scope user --scope-id alice"),
    "sessions app-put": ("""sessions app-put travel '["goal"]'""",),
    "sessions app-get": ("sessions app-get travel",),
    "sessions update": ("""sessions update trip-1 --metadata '{"title": "Rome"}'""",),
    "sessions set-status": ("sessions set-status trip-1 paused", "sessions set-status trip-1 active"),
    "sessions fork": ("sessions fork trip-1 --revision 2 --new-session-id trip-2",),
    "sessions shared": ("""sessions shared '["trip-1"]'""",),
    "sessions list": (
        "sessions list --user-id alice --app-name travel --sort -updated_at",
        """sessions list --app-name travel --where '{"goal": "Rome"}'""",
        "--json sessions list --status active",
    ),
    "sessions machine-put": ("sessions machine-put review @machine.json",),
    "sessions machine-get": ("sessions machine-get review", "sessions machine-get review --version 1"),
    "sessions terminate": ("sessions terminate trip-2",),
    "sessions archive": ("sessions archive trip-2",),
    "sessions delete": ("sessions delete trip-2", "sessions delete trip-2 --yes"),
    "memory": ("memory list user:alice", "memory put --help"),
    "memory put": (
        """memory put user:alice:travel seat '{"side": "window"}'""",
        """memory put user:alice:travel diet '"vegan"' --importance 0.8""",
    ),
    "memory patch": ("""memory patch user:alice:travel seat '{"row": 12}' --expect-version 1""",),
    "memory put-batch": ("memory put-batch @puts.json",),
    "memory get": ("memory get user:alice:travel seat", "memory get user:alice:travel seat --version 1"),
    "memory get-many": ("""memory get-many '[{"namespace": "user:alice", "key": "name"}]'""",),
    "memory history": ("memory history user:alice:travel seat --diff",),
    "memory list": ("memory list user:alice", "memory list user --created-by planner --limit 20"),
    "memory count": ("memory count user:alice",),
    "memory snapshot": ("memory snapshot user:alice:travel",),
    "memory diff": ("memory diff user:alice 2026-01-01T00:00:00Z 2026-02-01T00:00:00Z",),
    "memory fork": ("memory fork user:alice:travel user:bob:travel",),
    "memory namespaces": ("memory namespaces --prefix user --depth 2", "memory namespaces --suffix travel"),
    "memory delete": ("memory delete user:bob:travel seat",),
    "memory restore": ("memory restore user:bob:travel seat",),
    "memory delete-batch": ("memory delete-batch @deletes.json",),
    "memory lease": ("memory lease user:alice 60000", "memory lease user:alice:travel 60000 --key diet --wait-ms 5000"),
    "memory renew": ("memory renew user:alice 1",),
    "memory release": ("memory release user:alice 1",),
    "memory audit": ("memory audit --actor planner --limit 20", "memory audit --namespace user:alice:travel"),
    "memory audit-verify": ("memory audit-verify",),
    "memory export": ("memory export user:alice -o alice.jsonl",),
    "memory import": ("memory import alice.jsonl", "--tenant other memory import alice.jsonl --existing keep"),
    "memory erase": ("memory erase user:bob:travel --key seat", "memory erase user:bob:travel --key seat --yes"),
    "memory erasure": ('memory erasure "$RECEIPT"',),
    "memory erase-confirm": ('memory erase-confirm "$RECEIPT" my-worker 12',),
    "artifacts": ("artifacts upload --help", "artifacts list trip-1"),
    "artifacts upload": (
        "artifacts upload trip-1 report.txt",
        "artifacts upload trip-1 - --name notes.txt --content-type text/plain",
    ),
    "artifacts download": (
        "artifacts download trip-1 report.txt -o copy.txt",
        "artifacts download 'hive://default/trip-1/report.txt?version=1'",
    ),
    "artifacts save": ("artifacts save trip-1 hello.txt aGVsbG8=",),
    "artifacts get": ("artifacts get trip-1 hello.txt", "artifacts get trip-1 report.txt --length 100"),
    "artifacts stat": ("artifacts stat trip-1 report.txt",),
    "artifacts list": ("artifacts list trip-1", "artifacts list trip-1 --prefix reports/"),
    "artifacts versions": ("artifacts versions trip-1 report.txt",),
    "artifacts manifest": ("artifacts manifest trip-1",),
    "artifacts delete": ("artifacts delete trip-1 hello.txt", "artifacts delete trip-1 hello.txt --yes"),
    "artifacts begin": ("artifacts begin trip-1 big.bin --size 1000000",),
    "artifacts resume": ('artifacts resume "$UPLOAD_ID"',),
    "artifacts commit": ('artifacts commit "$UPLOAD_ID"',),
    "artifacts abort": ('artifacts abort "$UPLOAD_ID"',),
    "artifacts gc": ("artifacts gc --dry-run", "artifacts gc --yes"),
    "recall": (
        'recall "where does alice sit" --prefix user:alice',
        'recall "which hotel" --user-id alice --context 1 --explain',
    ),
    "vectors": ("vectors overview", "vectors store --help"),
    "vectors recall": ('vectors recall "where does alice sit" --prefix user:alice',),
    "vectors store": ("""vectors store v1 '[0.1, 0.9]' --metadata '{"of": "seat.png"}'""",),
    "vectors query": ("vectors query '[0.2, 0.8]' --top-k 3",),
    "vectors status": ("vectors status --state failed", "vectors status --namespace user:alice:travel"),
    "vectors overview": ("vectors overview",),
    "vectors sweep": ("vectors sweep --dry-run", "vectors sweep"),
    "vectors delete": ("vectors delete v1", "vectors delete v1 --yes"),
    "agents": ("agents list", "agents register --help"),
    "agents register": ("agents register guide", """agents register scout --directives '"Find a way."'"""),
    "agents get": ("agents get scout",),
    "agents list": ("agents list --status active",),
    "agents cycle-begin": ("agents cycle-begin scout", "agents cycle-begin guide --session-id trip-1"),
    "agents propose": ("""agents propose scout 1 --plan '["look", "book"]'""",),
    "agents resume": ("agents resume scout",),
    "agents complete": ("""agents complete scout 1 success --output '{"ferry": "07:00"}'""",),
    "agents abandon": ("agents abandon guide 1 'the port is closed'",),
    "agents cycle": ("agents cycle scout 1",),
    "agents cycles": ("agents cycles scout --reverse --limit 10",),
    "agents record": ("agents record scout observation '\"The ferry leaves at 7.\"' --number 1",),
    "agents records": ("agents records scout --kind observation",),
    "agents recall": ('agents recall scout "when does the boat leave" --results 3',),
    "agents prune": ("agents prune scout --older-than-days 90 --dry-run",),
    "agents trace": ("agents trace scout",),
    "agents trace-import": ("agents trace-import @trace.json",),
    "agents set-status": ("agents set-status scout paused", "agents set-status scout active"),
    "tail": ("tail memory --since 10m", "tail event.trip-1 --since start --count 2"),
    "dead": ("dead list", "dead replay --all"),
    "dead list": ("dead list", "--json dead list --limit 100"),
    "dead show": ("dead show 1",),
    "dead replay": ("dead replay 1 2", "dead replay --all"),
    "dead discard": ("dead discard 1", "dead discard --all --yes"),
}


def add_examples(command: Any, path: str) -> None:
    """Append its examples to the help of a command, and of each command in a group."""
    from rich.markup import escape

    if path in EXAMPLES:
        lines = [f"hivemem {example}" for example in EXAMPLES[path]]
        command.epilog = "\n\n".join(["Examples:", *map(escape, lines)])
    for name, inner in getattr(command, "commands", {}).items():
        add_examples(inner, f"{path} {name}")

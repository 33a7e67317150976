"""The scripts that teach a shell to complete, and where each shell reads them.

A script passes the typed words in the environment and runs `hivemem` without arguments, so that no version of it can
take them for a command.
"""

import os
from pathlib import Path
from typing import Final

import typer

SHELL: Final = "_HIVEMEM_SHELL"
LINE: Final = "_HIVEMEM_LINE"
BREAKS: Final = "_HIVEMEM_BREAKS"
WORDS: Final = "_HIVEMEM_WORDS"
"""The word under the cursor, and then the words before it, one in each line."""

SCRIPTS: Final = {
    "bash": f"""_hivemem_completion() {{
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
        [[ $line == *: ]] && compopt -o nospace 2>/dev/null
    done < <({SHELL}=bash {LINE}="${{COMP_LINE:0:COMP_POINT}}" {BREAKS}="$COMP_WORDBREAKS" "$1" 2>/dev/null)
    return 0
}}
complete -o bashdefault -o default -F _hivemem_completion hivemem
""",
    "zsh": f"""#compdef hivemem
_hivemem_completion() {{
    local line typed="${{(Q)words[CURRENT]}}"
    local -a values shown before=("${{(@Q)words[1,CURRENT-1]}}")
    while IFS= read -r line; do
        values+=("${{line%%$'\\t'*}}")
        shown+=("${{line/$'\\t'/  -- }}")
    done < <({SHELL}=zsh {WORDS}="$typed"$'\n'"${{(F)before}}" "$before[1]" 2>/dev/null)
    if (( $#values )); then
        local -a colons
        [[ $values[1] == *: ]] && colons=(-S '')
        compadd -l -d shown "$colons[@]" -a values
    else
        _files
    fi
}}
if [[ $funcstack[1] == _hivemem ]]; then
    _hivemem_completion "$@"
else
    compdef _hivemem_completion hivemem
fi
""",
    "fish": f"""function __hivemem_complete
    set -lx {SHELL} fish
    set -l current (commandline -ct)
    set -lx {WORDS} (string join \\n -- "$current" (commandline -opc) | string collect)
    set -l found (hivemem 2>/dev/null)
    if test (count $found) -gt 0
        string join \\n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c hivemem -f -a '(__hivemem_complete)'
""",
}


def script() -> tuple[str, str]:
    """Return the name of the user's shell, and its script."""
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in SCRIPTS:
        raise typer.BadParameter(
            f"SHELL={os.environ.get('SHELL', '')!r} is none of {', '.join(SCRIPTS)}: set it to the shell that you use",
            param_hint="SHELL",
        )
    return shell, SCRIPTS[shell]


def show(wanted: bool) -> None:
    """Print the script for the user's shell."""
    if wanted:
        typer.echo(script()[1], nl=False)
        raise typer.Exit


def install(wanted: bool) -> None:
    """Write the script where the user's shell reads it."""
    if not wanted:
        return
    shell, text = script()
    home = Path.home()
    path, line = {
        "bash": (home / ".bash_completions" / "hivemem.sh", "source ~/.bash_completions/hivemem.sh"),
        "zsh": (home / ".zfunc" / "_hivemem", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
        "fish": (home / ".config" / "fish" / "completions" / "hivemem.fish", ""),
    }[shell]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if line:
            _append_once(home / f".{shell}rc", line)
    except OSError as error:
        typer.echo(f"completion cannot be installed: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{shell} completion is installed in {path}; it works in the next shell that you start")
    raise typer.Exit


def _append_once(file: Path, line: str) -> None:
    text = file.read_text(encoding="utf-8", errors="surrogateescape") if file.exists() else ""
    if line not in text.splitlines():
        ends = "" if not text or text.endswith("\n") else "\n"
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"{ends}{line}\n")

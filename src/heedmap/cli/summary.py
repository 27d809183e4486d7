"""What a run found, for a person in a terminal and for a program as JSON."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from heedmap.cli.run_facts import fact_lines, several_parts, warnings_of
from heedmap.cli.wording import printable, short_path
from heedmap.heads.pairs import Pair, strongest_pairs
from heedmap.heads.telling import KINDS, TellingHead, head_to_show, telling_heads

if TYPE_CHECKING:
    from heedmap.runs.reader import Run

_HEAD = "bold cyan"
_TOP = 3
_PLAIN = str.maketrans(
    {"→": "->", "×": "x", "·": "-", "…": "...", "≈": "about ", "✓": "ok", "✗": "!!", "“": '"', "”": '"'}
)


class Summary:
    """The summary of one run, gathered once and then rendered or written as JSON."""

    def __init__(self, run: Run, picture: Path | None = None) -> None:
        self.run = run
        self.picture = picture
        self.telling = telling_heads(run, _TOP)
        self.pairs = strongest_pairs(run)
        self.warnings = warnings_of(run)
        self._several_parts = several_parts(run)

    @property
    def trusted(self) -> bool:
        """False where the self-check ran and failed."""
        check = self.run.meta.get("self_check")
        return check is None or bool(check.get("passed"))

    @property
    def head(self) -> tuple[str, int, int] | None:
        """The head to draw when nobody has chosen one: that of the strongest pairs together, or the most telling one.

        Pairs of less than half the strongest weight do not count.
        """
        if not self.pairs:
            return head_to_show(self.telling)
        weights: dict[tuple[str, int, int], float] = {}
        for pair in self.pairs:
            if 2 * pair.weight >= self.pairs[0].weight:
                key = pair.part, pair.layer, pair.head
                weights[key] = weights.get(key, 0.0) + pair.weight
        return max(weights, key=lambda key: weights[key])

    def as_json(self) -> dict[str, Any]:
        """What the terminal shows, as plain data; warnings come on top."""
        meta = self.run.meta
        return {
            "heedmap": meta.get("heedmap"),
            "run": str(self.run.path),
            "picture": None if self.picture is None else str(self.picture),
            "model": meta.get("model"),
            "text": meta.get("text"),
            "layers": [{"part": info.part, "layer": info.layer, "heads": list(info.heads)} for info in self.run.layers],
            "statistics": sorted(meta.get("statistics", {})),
            "cost": meta.get("cost"),
            "self_check": meta.get("self_check"),
            "telling": {kind: [_plain_head(head) for head in heads] for kind, heads in self.telling.items()},
            "pairs": [
                {
                    "query": {"position": pair.query, "text": pair.query_text},
                    "key": {"position": pair.key, "text": pair.key_text},
                    "weight": pair.weight,
                    "part": pair.part,
                    "layer": pair.layer,
                    "head": pair.head,
                }
                for pair in self.pairs
            ],
        }

    def write_json(self, stream: TextIO, told: list[str]) -> None:
        """One JSON document and a line end, nothing else, with the warnings ``told`` on the way among its own.

        Letters beyond ASCII are escaped where the stream cannot hold them.
        """
        wide = (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")
        document = self.as_json() | {"warnings": list(dict.fromkeys([*told, *self.warnings]))}
        stream.write(json.dumps(document, ensure_ascii=not wide, allow_nan=False, indent=1) + "\n")

    def print(self, stream: TextIO) -> None:
        """Print for a person: in colour on a terminal, plain text of at most 80 columns or COLUMNS elsewhere."""
        console = Console(file=stream, highlight=False, markup=False, emoji=False)
        if console.is_terminal:
            console.print(self._page(console))
            return
        with console.capture() as captured:
            console.print(self._page(console))
        stream.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))

    def _page(self, console: Console) -> Group:
        plain = not console.encoding.lower().startswith("utf")

        def say(text: str) -> str:
            return text.translate(_PLAIN) if plain else text

        blocks: list[Any] = [Text(""), self._facts(say, console.width)]
        for warning in self.warnings:
            blocks += [Text(""), Padding(Text(say(f"warning: {warning}"), style="bold yellow"), (0, 2))]
        if self.telling:
            blocks += [
                Text(""),
                _title("Most telling heads, with their mean weight on"),
                self._telling_table(say, console.width),
            ]
        if self.pairs:
            blocks += [Text(""), _title("Strongest pairs of words"), self._pair_table(say, console)]
        blocks += [Text(""), self._next_steps(say, console.width), Text("")]
        return Group(*blocks)

    def _facts(self, say: Any, width: int) -> Table:
        table = _columns(width)
        for name, line in fact_lines(self.run, width):
            table.add_row(name, Text(say(line.plain), style=line.style, overflow="fold"))
        return table

    def _telling_table(self, say: Any, width: int) -> Table:
        table = Table.grid(padding=(0, 2), pad_edge=True)
        table.add_column(max_width=30)
        best = max(len(self._name(head)) for heads in self.telling.values() for head in heads)
        shown = max(1, min(_TOP, (width - 28) // (best + 9)))
        for _ in range(shown):
            table.add_column(style=_HEAD, justify="right", no_wrap=True)
            table.add_column(no_wrap=True)
        for kind, heads in self.telling.items():
            unit = ": entropy" if heads[0].unit == "nats" else ""
            cells = [cell for head in heads[:shown] for cell in (self._name(head), f"{head.value:.2f}")]
            table.add_row(f"{KINDS[kind]}{unit}", *cells)
        return table

    def _pair_table(self, say: Any, console: Console) -> Table:
        table = Table.grid(padding=(0, 2), pad_edge=True)
        room = max((console.width - 40) // 2, 6)
        table.add_column(justify="right", max_width=room, no_wrap=True, overflow="ellipsis")
        table.add_column(style="dim", no_wrap=True)
        table.add_column(max_width=room, no_wrap=True, overflow="ellipsis")
        table.add_column(no_wrap=True)
        table.add_column(style=_HEAD, no_wrap=True)
        times = Counter(self.run.words_of().table.column("text").to_pylist())
        for pair in self.pairs:
            table.add_row(
                _label(pair.query_text, pair.query, times[pair.query_text]),
                say("→"),
                _label(pair.key_text, pair.key, times[pair.key_text]),
                f"{pair.weight:.2f}",
                f"head {self._pair_name(pair)}",
            )
        return table

    def _next_steps(self, say: Any, width: int) -> Table:
        table = _columns(width)
        folder = short_path(self.run.path)
        if self.picture is not None:
            table.add_row("picture", Text(str(self.picture), overflow="fold"))
        table.add_row("run", Text(folder, overflow="fold"))
        if self.picture is None:
            table.add_row("next", Text(f"heedmap show {shlex.quote(folder)} --png heads.png", overflow="fold"))
        exact = [key for key in (self.head, *reversed(self.run.heads)) if key and self.run.layer(key[1], key[0]).exact]
        if exact:
            part, layer, head = exact[0]
            extra = f", part={part!r}" if self._several_parts else ""
            code = f"heedmap.open_run({folder!r}).weights({layer}, {head}{extra})"
            table.add_row("" if self.picture is None else "next", Text(code, overflow="fold"))
        if self.run.meta.get("spans"):
            table.add_row("spans", Text(f"heedmap spans {shlex.quote(folder)}", overflow="fold"))
        return table

    def _name(self, head: TellingHead) -> str:
        return f"{head.part + ' ' if self._several_parts else ''}{head.layer}.{head.head}"

    def _pair_name(self, pair: Pair) -> str:
        return f"{pair.part + ' ' if self._several_parts else ''}{pair.layer}.{pair.head}"


def _plain_head(head: TellingHead) -> dict[str, Any]:
    return {"part": head.part, "layer": head.layer, "head": head.head, "value": head.value, "unit": head.unit}


def _columns(width: int) -> Table:
    table = Table.grid(padding=(0, 2), pad_edge=True)
    table.add_column(style="dim", no_wrap=True, min_width=7)
    table.add_column(overflow="fold")
    return table


def _title(text: str) -> Padding:
    return Padding(Text(text, style="bold"), (0, 2))


def _label(text: str, position: int, times: int) -> Text:
    """A word, with the position of its first token where the text has the word more than once."""
    label = Text(printable(text), style="bold")
    if times > 1:
        label.append(f" #{position}", style="dim")
    return label

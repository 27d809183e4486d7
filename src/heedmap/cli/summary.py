"""What a run found, for a person in a terminal and for a program as JSON."""

from __future__ import annotations

import json
import shlex
import unicodedata
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from heedmap.heads.pairs import Pair, bare, strongest_pairs
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
        self.warnings = _warnings(run)
        self._several_parts = len({part for part, _, _ in run.heads}) > 1

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
        for name, line in (
            ("text", self._text_line(width)),
            ("model", self._model_line()),
            ("took", self._cost_line()),
            ("instead", self._instead_line()),
            ("check", self._check_line()),
        ):
            if line is not None:
                table.add_row(name, Text(say(line.plain), style=line.style, overflow="fold"))
        return table

    def _text_line(self, width: int) -> Text:
        text = self.run.meta["text"]
        decoded, generated = text.get("target_tokens"), text.get("generated", 0)
        tokens = self.run.tokens_of().num_rows - (0 if decoded else generated)
        count = f"{tokens:,} token{'' if tokens == 1 else 's'}"
        if text.get("truncated_from"):
            count += f" (of {text['truncated_from']:,}; cut)"
        if generated:
            count += f" + {generated:,} generated; the last one has read nothing yet"
        elif decoded:
            count += f" + {decoded:,} decoded; the last one has read nothing yet"
        prompt, wrote = self._prompt_and_answer()
        pieces = [prompt, *(piece for piece in (wrote,) if piece is not None)]
        line = (" → " if generated or decoded else " + ").join(
            f"“{_cut(printable(piece), max(width - 16, 20))}”" for piece in pieces
        )
        return Text(f"{line} · {count}")

    def _prompt_and_answer(self) -> tuple[str, str | None]:
        """The text that was given, and what follows it: the second of a pair, or what a model wrote."""
        tokens = self.run.tokens_of()
        if self.run.text_pair is None and "generated" in tokens.column_names:
            starts = zip(tokens.column("start").to_pylist(), tokens.column("generated").to_pylist(), strict=True)
            first = next((start for start, wrote in starts if wrote and start >= 0), len(self.run.text))
            return self.run.text[:first], self.run.text[first:]
        return self.run.text, self.run.text_pair

    def _model_line(self) -> Text:
        model = self.run.meta["model"]
        layers = sorted({info.layer for info in self.run.layers})
        heads = sorted({len(info.heads) for info in self.run.layers})
        of_heads = sorted({info.query_heads for info in self.run.layers})
        seen = f"{len({(i.part, i.layer) for i in self.run.layers})} layers × {_span(heads)} heads"
        total = model.get("layers")
        if (isinstance(total, int) and total != len(layers)) or heads != of_heads:
            seen += f" (of {total or len(layers)} × {_span(of_heads)})"
        pieces = [model.get("name"), model.get("class"), seen, model.get("dtype")]
        return Text(" · ".join(printable(str(piece)) for piece in pieces if piece))

    def _cost_line(self) -> Text | None:
        cost = self.run.meta.get("cost") or {}
        seconds = cost.get("seconds") or {}
        if seconds.get("total") is None:
            return None
        steps = [f"{name} {_seconds(seconds[name])}" for name in ("load", "forward") if seconds.get(name) is not None]
        line = _seconds(seconds["total"]) + (f" ({', '.join(steps)})" if steps else "")
        if cost.get("peak_bytes"):
            line += f" · peak memory {_bytes(cost['peak_bytes'])}"
        return Text(line)

    def _instead_line(self) -> Text | None:
        needed = (self.run.meta.get("cost") or {}).get("output_attentions_bytes")
        return None if not needed else Text(f"output_attentions would have held {_bytes(needed)} of weights")

    def _check_line(self) -> Text | None:
        check = self.run.meta.get("self_check")
        if check is None:
            return Text("not compared with the model's own eager attention", style="yellow")
        part = f"{check['part']} " if self._several_parts and "part" in check else ""
        where = (
            f"budget {_scientific(check.get('budget'))}, largest in head {part}{check.get('layer')}.{check.get('head')}"
        )
        rows = check.get("rows") or 0
        if rows < max(info.query_len for info in self.run.layers):
            where += f", over the first {rows:,} tokens"
        error = _scientific(check.get("max_abs_error"))
        if check.get("passed"):
            return Text(f"✓ within {error} of the model's own eager attention ({where})", style="green")
        if check.get("max_abs_error") is not None and check["max_abs_error"] <= (check.get("budget") or 0):
            path = _scientific(check.get("path_difference"))
            return Text(
                f"✗ FAILED: the model's output differs by {path} of the largest while looked at", style="bold red"
            )
        return Text(f"✗ FAILED: {error} from the model's own eager attention ({where})", style="bold red")

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
        times = Counter(map(bare, self.run.tokens_of().column("text").to_pylist()))
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
        folder = _short_path(self.run.path)
        if self.picture is not None:
            table.add_row("picture", Text(str(self.picture), overflow="fold"))
        table.add_row("run", Text(folder, overflow="fold"))
        if self.picture is None:
            table.add_row("next", Text(f"heedmap show {shlex.quote(folder)} --png heads.png", overflow="fold"))
        if self.run.layers[0].inputs:
            part, layer, head = self.head or self.run.heads[-1]
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


def printable(text: str) -> str:
    """A text on one line, without the characters that command a terminal or turn the reading direction."""
    spaced = " ".join(text.split())
    return "".join("�" if unicodedata.category(letter) in ("Cc", "Cs") else "" if _is_format(letter) else letter for
                   letter in spaced)  # fmt: skip


def _is_format(letter: str) -> bool:
    return unicodedata.category(letter) == "Cf" and letter not in "\u200c\u200d"


def _warnings(run: Run) -> list[str]:
    """What makes the numbers of a run doubtful, each in a sentence."""
    found = []
    initialised = run.meta["model"].get("initialised") or 0
    if initialised:
        weights = "weight of the model was" if initialised == 1 else "weights of the model were"
        found.append(
            f"{initialised} {weights} not in its files and newly initialised: attention that depends on them is random"
        )
    check = run.meta.get("self_check")
    if check is not None and not check.get("passed"):
        found.append(
            "the self-check FAILED: these weights are not the model's own; do not rely on them, and please report it"
        )
    if check is not None and not check.get("loaded_agrees", True):
        found.append(
            "the attention that the model was loaded with differs from its own eager one by "
            f"{_scientific(check.get('loaded_difference'))} of the largest output, beyond rounding"
        )
    if check is not None and not check.get("output_finite", True):
        found.append(
            "the model's own output holds NaN or infinity: its weights may be damaged, or its dtype too narrow"
        )
    return found


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
    """A token's label, with its position where the text has the label more than once."""
    label = Text(printable(text), style="bold")
    if times > 1:
        label.append(f" #{position}", style="dim")
    return label


def _short_path(path: Path) -> str:
    """A path below the current folder without that folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _cut(text: str, width: int) -> str:
    line = Text(text)
    line.truncate(width, overflow="ellipsis")
    return line.plain


def _span(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def _seconds(seconds: float) -> str:
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if size >= 100 or unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _scientific(number: float | None) -> str:
    return "not a number" if number is None else "0" if number == 0 else f"{number:.1e}"

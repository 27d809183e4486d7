"""Needles in a haystack: prompts of a wanted length with a sentence at a wanted depth, and a question about it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from heedmap.capture.quiet import quiet
from heedmap.errors import InputError

WHERE = "retrieval"


@dataclass(frozen=True)
class Needle:
    """A sentence that stands nowhere else, a question that only it answers, and the answer; without one, the needle."""

    needle: str
    question: str
    answer: str = ""

    @property
    def wanted(self) -> str:
        return self.answer or self.needle


NEEDLES = (
    Needle(
        "The lighthouse keeper of Varnholm hides the spare key inside a blue teapot on the second shelf.",
        "Where does the lighthouse keeper of Varnholm hide the spare key?",
        "inside a blue teapot on the second shelf",
    ),
    Needle(
        "The night train to Ostrava carries exactly forty-seven crates of green apples every Tuesday.",
        "What does the night train to Ostrava carry every Tuesday?",
        "exactly forty-seven crates of green apples",
    ),
    Needle(
        "Doctor Imelda Quince repairs broken violins with a paste made of honey and powdered amber.",
        "How does Doctor Imelda Quince repair broken violins?",
        "with a paste made of honey and powdered amber",
    ),
)
"""Invented facts, so that no model knows them from elsewhere."""

_ASK = "Answer with the words of the text."
_SENTENCE = re.compile(r"[.!?]['\"”’)]*\s+")
_NEAR = 0.08  # share of the haystack, on either side of a depth, in which the end of a sentence is looked for


@dataclass(frozen=True)
class Prompt:
    """A prompt with its tokens.

    Attributes:
        text: as the tokenizer gets it, marks of the chat included.
        ids: token ids.
        start, stop: the needle's tokens.
        depth: where it came to stand, by characters: 0 at the beginning of the haystack, 1 at its end.
    """

    text: str
    ids: list[int]
    start: int
    stop: int
    depth: float


def read_needles(file: Path) -> tuple[Needle, ...]:
    """Needles from a JSON file: a list of objects with `needle`, `question` and, if wanted, `answer`.

    Raises:
        InputError: a file that cannot be read, or something else in it.
    """
    try:
        found: Any = json.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InputError("--needles", expected="a JSON file", got=f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError("--needles", expected="JSON in UTF-8", got=f"{file}: {error}") from error
    if not isinstance(found, list) or not found:
        raise InputError("--needles", expected="a list of needles", got=type(found).__name__ if found else "none")
    return tuple(_needle(index, entry) for index, entry in enumerate(found))


def _needle(index: int, entry: Any) -> Needle:
    names = ("needle", "question", "answer")
    right = isinstance(entry, dict) and {"needle", "question"} <= set(entry) <= set(names)
    if not right or not all(isinstance(text, str) and text.strip() for text in entry.values()):
        raise InputError(
            "--needles",
            expected='objects like {"needle": "A sentence.", "question": "A question?", "answer": "its words"}',
            got=f"{str(entry)[:80]} at place {index}",
        )
    return Needle(*(entry.get(name, "").strip() for name in names))


class Haystack:
    """Makes prompts of one tokenizer from one long text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, text: str) -> None:
        if not tokenizer.is_fast:
            raise InputError(
                WHERE,
                expected="a tokenizer that tells where in the text its tokens stand (a fast one)",
                got=type(tokenizer).__name__,
            )
        self._tokenizer = tokenizer
        self._text = text
        self.chat = bool(tokenizer.chat_template)
        with quiet():
            encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False)
        self._starts = [start for start, _ in encoded["offset_mapping"]]

    def prompt(self, needle: Needle, length: int, depth: float) -> Prompt:
        """A prompt of at most `length` tokens, and at most a few less, with the needle behind the sentence that ends
        nearest to `depth` (0 to 1) of the haystack, or where none is near behind a word.

        Raises:
            InputError: a haystack too short for the length, a length too short for the question, or a needle that
                already stands in the haystack.
        """
        if needle.needle in self._text:
            raise InputError(WHERE, expected="a needle that the haystack does not hold", got=repr(needle.needle[:60]))
        room = length - len(self._encode(self._wrap(needle, "", ""))[0])
        if room < 1:
            raise InputError(WHERE, expected="a length that leaves room for a text around the needle", got=f"{length}",
                             do=f"take {length - room + 64} or more")  # fmt: skip
        if room > len(self._starts):
            raise InputError(
                WHERE,
                expected=f"a text of at least {room:,} tokens, for a prompt of {length:,}",
                got=f"{len(self._starts):,}",
                do="give a longer --file, or smaller --lengths",
            )
        while True:
            end = self._starts[room] if room < len(self._starts) else len(self._text)
            before, after = self._split(self._text[:end], depth)
            text = self._wrap(needle, before, after)
            ids, offsets = self._encode(text)
            if len(ids) <= length or room <= 1:
                break
            room = max(1, room - (len(ids) - length))
        at = text.index(needle.needle)
        inside = [
            index
            for index, (start, stop) in enumerate(offsets)
            if start < at + len(needle.needle) and stop > at and text[start:stop].strip()
        ]
        share = len(before) / max(len(before) + len(after), 1)
        return Prompt(text, ids, inside[0], inside[-1] + 1, share)

    def _split(self, context: str, depth: float) -> tuple[str, str]:
        """The context before and behind the place of a needle: the end of a sentence, where there is one near."""
        if depth >= 1:
            return context, ""
        at, near = int(depth * len(context)), int(_NEAR * len(context))
        ends = [match.end() for match in _SENTENCE.finditer(context, max(0, at - near), at + near)]
        if at == 0:
            return "", context
        if ends:
            at = min(ends, key=lambda end: abs(end - at))
        else:
            space = context.rfind(" ", 0, at)
            at = space + 1 if space >= 0 else 0
        return context[:at], context[at:]

    def _wrap(self, needle: Needle, before: str, after: str) -> str:
        """The whole prompt, in the model's chat template where it has one."""
        parts = (before.strip(), needle.needle, after.strip())
        context = " ".join(part for part in parts if part)
        if not self.chat:
            return f"{context}\n\nQuestion: {needle.question} {_ASK}\nAnswer:"
        message = {"role": "user", "content": f"{context}\n\n{needle.question} {_ASK}"}
        wrapped = self._tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
        assert isinstance(wrapped, str)
        return wrapped

    def _encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        with quiet():
            encoded = self._tokenizer(
                text, add_special_tokens=not self.chat, return_offsets_mapping=True, truncation=False
            )
        return list(encoded["input_ids"]), [tuple(span) for span in encoded["offset_mapping"]]

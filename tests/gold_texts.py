"""Small gold texts of our own: CoNLL-U built from words, and a grammar whose sentences vary in length and order."""

from __future__ import annotations

import random
from collections.abc import Sequence

Row = tuple[str, int, str]
"""Form, number of the head (0 for the root), relation."""


def conllu(rows: Sequence[Row], text: str | None = None, **comments: str) -> str:
    """One sentence; without `text` no `# text` line."""
    lines = [f"# {name} = {value}" for name, value in comments.items()]
    lines += [] if text is None else [f"# text = {text}"]
    for number, (form, head, relation) in enumerate(rows, 1):
        lines.append("\t".join([str(number), form, form.lower(), "X", "_", "_", str(head), relation, "_", "_"]))
    return "\n".join(lines) + "\n\n"


_NOUNS = ("cat", "dog", "house", "river", "king", "book", "tree", "song")
_VERBS = ("saw", "found", "made", "took", "left", "heard")
_ADJECTIVES = ("old", "small", "red", "good")
_ADVERBS = ("now", "then", "here", "often")


def sentence(chance: random.Random) -> list[Row]:
    """A sentence such as `often now the old cat saw a dog`: advmod, det, amod, nsubj, obj, root."""
    rows: list[Row] = []
    before = chance.randrange(4)
    subject, target = _phrase(chance), _phrase(chance)
    verb = before + len(subject) + 1
    rows += [(chance.choice(_ADVERBS), verb, "advmod") for _ in range(before)]
    rows += _attached(subject, len(rows), verb, "nsubj")
    rows.append((chance.choice(_VERBS), 0, "root"))
    rows += _attached(target, len(rows), verb, "obj")
    return rows


def _phrase(chance: random.Random) -> list[tuple[str, str]]:
    adjectives = [(chance.choice(_ADJECTIVES), "amod") for _ in range(chance.randrange(3))]
    return [(chance.choice(("the", "a")), "det"), *adjectives, (chance.choice(_NOUNS), "")]


def _attached(phrase: list[tuple[str, str]], start: int, verb: int, relation: str) -> list[Row]:
    noun = start + len(phrase)
    return [(form, noun, own) if own else (form, verb, relation) for form, own in phrase]


def treebank(sentences: int, seed: int = 0) -> str:
    """CoNLL-U of many sentences."""
    chance = random.Random(seed)
    rows = [sentence(chance) for _ in range(sentences)]
    return "".join(conllu(own, " ".join(form for form, _, _ in own)) for own in rows)

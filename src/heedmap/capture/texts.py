"""What a model reads in one look: the text, and what it decodes or adds to it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heedmap.capture.continuation import Reading, begun, continued, written
from heedmap.capture.known import Generated, Known
from heedmap.capture.layers import decodes
from heedmap.capture.models import LoadedModel
from heedmap.capture.positions import positions_of
from heedmap.capture.session import Place, Session
from heedmap.capture.taking import Progress, Taker
from heedmap.capture.tokens import Tokens, tokenise
from heedmap.capture.views import View, check_generates, check_known, generate, reader_of, start_of
from heedmap.errors import InputError


class Texts:
    """What a model reads in one look: the text, and what it decodes or adds to it."""

    def __init__(
        self,
        loaded: LoadedModel,
        text: str,
        text_pair: str | None,
        target: str | None,
        new: int | None,
        max_tokens: int | None,
    ) -> None:
        self._loaded = loaded
        self._new = new
        positions = positions_of(loaded.model.config)
        self.source, self._inputs = tokenise(
            loaded.tokenizer, text, text_pair, max_tokens=max_tokens, positions=positions
        )
        two = bool(getattr(loaded.model.config, "is_encoder_decoder", False))
        self.decoding = two and (target is not None or new is not None)
        reader_of(loaded.model, self._inputs, decoding=self.decoding)
        check_known(loaded.model, self.source)
        self._target: Tokens | None = None
        if new is not None:
            check_generates(loaded.model, len(self.source), new)
        if target is not None:
            self._target = self._decoded(target, two, text_pair, new)
        elif self.decoding and text_pair is not None:
            raise InputError("look", expected="one text for an encoder–decoder that decodes", got="a pair")
        self.read = Reading(self.source, self._target)
        self._known: dict[bool, Known] = {}

    def _decoded(self, target: str, two: bool, text_pair: str | None, new: int | None) -> Tokens:
        """The target's tokens, behind the one that the decoder starts with."""
        model, tokenizer = self._loaded.model, self._loaded.tokenizer
        for wrong, got in (
            (not two, f"{type(model).__name__}, which has no decoder beside an encoder"),
            (text_pair is not None, "a pair of texts too"),
            (new is not None, "something to generate too"),
        ):
            if wrong:
                raise InputError("look", expected="a target for an encoder–decoder, and one text", got=got)
        tokens, _ = tokenise(tokenizer, target, positions=positions_of(model.config))
        check_known(model, tokens)
        return begun(tokens, tokenizer, start_of(model))

    def run(self, session: Session, taken: Taker, tell: Progress) -> View:
        """Run the model; afterwards `read` has all that was read."""
        model = self._loaded.model
        if self._new is None:
            ids = None if self._target is None else torch.tensor([self._target.ids[:-1]])
            viewed = View(model, self._inputs, ids)
            taken.expect(viewed.expected_layers(session))
            viewed.forward(viewed.length)
            return viewed
        tell("generate", 0, self._new)
        ids = generate(model, self._inputs, self._new, tell).cpu()
        self.extend(ids)
        if self.decoding:
            return View(model, self._inputs, ids[None, :-1])
        return View(model, {"input_ids": ids[None, :-1], "attention_mask": torch.ones(1, len(ids) - 1).long()})

    def extend(self, ids: Tensor) -> None:
        """Take the text that the model made."""
        if self.read.prompt:
            return
        self._known.clear()
        tokenizer, whole = self._loaded.tokenizer, ids.tolist()
        if self.decoding:
            self.read = Reading(self.source, written(tokenizer, whole), prompt=1)
        else:
            given = len(self.source)
            self.read = Reading(continued(self.source, tokenizer, whole[given:]), prompt=given)

    def known(self, passages: Mapping[str, list[bool]], place: Place, generated: Generated | None) -> Known:
        """What is known of the keys of one layer: tokens of the text, or of the one that is decoded."""
        if generated is not None:
            self.extend(generated.token_ids[0])
        of_target = self.decoding and decodes(place.part) and not place.cross
        if of_target not in self._known:
            tokens = self.read.last if of_target else self.read.source
            empty = {name: [False] * len(tokens) for name in passages}
            longer = {name: marks + [False] * (len(tokens) - len(marks)) for name, marks in passages.items()}
            self._known[of_target] = Known.of_tokens(tokens, empty if of_target else longer)
        return self._known[of_target]

"""Which facts about tokens hold for the keys of one attention call: those of the text that its keys stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from heedmap.capture.known import Generated, Known
from heedmap.capture.layers import SEEN_OR_HEARD, decodes

if TYPE_CHECKING:
    from heedmap.capture.session import Place, Teller


def facts_of(
    model: nn.Module, known: Known | Teller | None, place: Place, generated: Generated | None = None
) -> Known | None:
    """What is known of the keys of a call; None where they are no tokens of a known text (an image, a recording).

    Args:
        model: the model that is watched.
        known: what a watch was told of the texts, or what tells it by place.
        place: where the call stands.
        generated: the texts that a `generate()` returned, where the call is one of it, all passes joined.

    Raises:
        InputError: facts about another number of texts than there are.
    """
    if known is not None and not isinstance(known, Known):
        return known(place, generated)
    own = _of_text(model, known, place)
    if generated is None or (own is None and place.cross):
        return own
    return (own or Known()).of_texts(generated, cross=place.cross)


def _of_text(model: nn.Module, known: Known | None, place: Place) -> Known | None:
    """The facts about the text that a place's keys stand for."""
    if known is None or place.site.stack.split(".")[0] in SEEN_OR_HEARD:
        return None
    if not getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return None if place.cross else known
    if decodes(place.part) and not place.cross:
        return known.target
    return known if getattr(model, "main_input_name", None) == "input_ids" else None

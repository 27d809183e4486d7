"""The gauge of `heedmap.capture.gauge` for transformers' Trainer."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from heedmap.capture.gauge import COLLAPSED, EXPLODED, Gauge

_TERMINAL = (PrinterCallback, ProgressCallback)
"""Callbacks that print what is logged; hundreds of numbers are not for them."""


class AttentionCallback(TrainerCallback):
    """Logs every head's attention to whatever a Trainer reports to: TensorBoard, Weights & Biases, ….

        trainer = Trainer(model, arguments, train_dataset=data)
        trainer.add_callback(heedmap.AttentionCallback(trainer, every=100))

    What is logged, when it warns, and why training stays the same to the last bit: see `Gauge`. The numbers go to the
    Trainer's reporting callbacks, not to the terminal and not into `trainer.state.log_history`.

    Args:
        trainer: the Trainer that trains; its callbacks are asked when something is logged.
        every: measure optimizer steps 0, every, 2·every, …, each with all its micro-batches.
        layers, heads, collapsed, exploded: as in `Gauge`.
    """

    def __init__(
        self,
        trainer: Any,
        *,
        every: int = 100,
        layers: Iterable[int] | int | None = None,
        heads: Iterable[int | str | tuple[int, int]] | int | None = None,
        collapsed: float = COLLAPSED,
        exploded: float = EXPLODED,
    ) -> None:
        self._trainer = trainer
        self._gauge = Gauge(
            trainer.model,
            self._hand_on,
            every=every,
            layers=layers,
            heads=heads,
            collapsed=collapsed,
            exploded=exploded,
        )

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure within the Trainer's own training step, so that a model whose training is broken off is set back."""
        trainer, gauge, step = self._trainer, self._gauge, self._trainer.training_step

        @functools.wraps(step)
        def training_step(*given: Any, **named: Any) -> Any:
            with gauge.measuring(trainer.state.global_step):
                return step(*given, **named)

        trainer.training_step = training_step

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """All micro-batches of a step are done."""
        self._gauge.report(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Give the Trainer its own training step back."""
        vars(self._trainer).pop("training_step", None)

    def _hand_on(self, values: dict[str, float], step: int) -> None:
        trainer = self._trainer
        for callback in trainer.callback_handler.callbacks:
            if callback is not self and not isinstance(callback, _TERMINAL):
                callback.on_log(trainer.args, trainer.state, trainer.control, logs=dict(values), model=trainer.model)

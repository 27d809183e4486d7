"""Memory and time before anything runs: predictions from a config, held against real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers.integrations.moe
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from heedmap.errors import HeedmapError, InputError, ModelError
from heedmap.experiments import calibration, plan
from heedmap.experiments.calibration import Base, calibrate
from heedmap.experiments.live_bytes import MAPPED, LiveBytes
from heedmap.experiments.operations import Shape, sweep_bytes
from heedmap.experiments.plan import powers, run_bytes, run_plan
from heedmap.experiments.skeleton import PAGES_READ, Skeleton, config_of

TEXT = "The cat sat on the mat because it was tired. " * 60


@pytest.fixture(scope="module")
def skeleton() -> Skeleton:
    config, kind, _, name = config_of("minilm")
    return Skeleton(config, kind, name)


@pytest.fixture
def quick_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's rates from a moment, where a test is not about time."""
    monkeypatch.setattr(plan, "calibrate", partial(calibrate, seconds=0.02))


@pytest.fixture
def quick_machine(quick_speed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a made-up process without a model, where it is not about memory either."""
    empty = nullcontext(SimpleNamespace(measured=lambda: Base(300_000_000, 400_000_000)))
    monkeypatch.setattr(plan, "BaseMemory", lambda: empty)


@pytest.mark.usefixtures("quick_speed")
def test_memory_is_predicted_within_15_percent_of_a_real_run(minilm_folder: Path, tmp_path: Path) -> None:
    code = (
        "from heedmap.capture.look import look; import heedmap.cli.look, heedmap.cli.report; "
        f"run = look({TEXT!r}, 'minilm', max_tokens=512, out={str(tmp_path / 'run')!r}); "
        "print(run.meta['cost']['peak_bytes'], run.meta['cost']['output_attentions_bytes'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak, attentions = map(int, done.stdout.split())
    cost = run_plan("minilm", 512, lengths=[]).cost
    assert cost.sweep_peak_bytes == pytest.approx(peak, rel=0.15)
    assert cost.attentions_bytes == attentions
    on_disk = sum(path.stat().st_size for path in (tmp_path / "run").iterdir())
    assert cost.run_bytes == pytest.approx(on_disk, rel=0.15)


def test_cells_are_those_of_every_head(skeleton: Skeleton) -> None:
    passed = skeleton.forward(100, 2)
    assert len(passed.attended) == 6
    assert sum(call.cells for call in passed.attended) == 6 * 12 * 2 * 100 * 100
    assert sum(call.visited for call in passed.attended) == 6 * 12 * 2 * 100 * 100


def test_weights_are_those_of_the_model(skeleton: Skeleton, minilm: PreTrainedModel) -> None:
    assert skeleton.parameters == sum(p.numel() for p in minilm.parameters())
    assert skeleton.weights == 4 * skeleton.parameters


def test_a_causal_model_visits_half_of_its_cells(tiny_model: Callable[..., PreTrainedModel]) -> None:
    model = tiny_model("llama")
    found = Skeleton(model.config, type(model), "tiny").forward(64, 1)
    assert sum(call.visited for call in found.attended) == 2 * 4 * 64 * 65 / 2


def test_activations_are_counted_as_a_real_pass_makes_them(
    tiny_model: Callable[..., PreTrainedModel], skeleton: Skeleton
) -> None:
    model = tiny_model("bert")
    with torch.no_grad(), LiveBytes() as live:
        model(input_ids=torch.ones(1, 64, dtype=torch.long))
    counted = Skeleton(model.config, type(model), "tiny").forward(64, 1, sweep_bytes)
    assert counted.peak_bytes > 0
    assert live.peak > 0
    shorter, longer = (skeleton.forward(n, 1).peak_bytes for n in (128, 256))
    assert longer == pytest.approx(2 * shorter, rel=0.05)


def test_live_bytes_forget_what_is_gone_and_count_views_once() -> None:
    with LiveBytes() as live:
        first = torch.empty(1000, device="meta")
        second = first * 2
        view = second.view(10, 100)
        assert live.now == 8000
        del second
        assert live.now == 8000
        del view
        assert live.now == 4000
        first.add_(1)
        assert live.now == 4000
    assert live.peak == 8000


def test_small_tensors_leave_their_memory_with_the_process_until_it_is_given_back() -> None:
    small, large = MAPPED // 8, MAPPED // 4 + 1
    with LiveBytes() as live:
        first = torch.empty(small, device="meta")
        del first
        assert (live.now, live.held) == (0, 4 * small)
        second = torch.empty(large, device="meta")
        assert (live.peak, live.held_peak) == (4 * large, 4 * (small + large))
        del second
        assert live.held == 4 * small
        live.passing(16 * small)
        assert live.held_peak == 16 * small
        live.give_back()
        assert live.held == 0


def test_embeddings_that_no_token_reads_stay_in_their_file(skeleton: Skeleton, minilm: PreTrainedModel) -> None:
    embeddings = 4 * minilm.config.vocab_size * minilm.config.hidden_size
    assert skeleton.unread_bytes(0) == embeddings
    assert skeleton.unread_bytes(10) == embeddings - 10 * PAGES_READ
    assert skeleton.unread_bytes(100_000) == 0


@pytest.mark.parametrize("kind", ["MixtralConfig", "Qwen3MoeConfig", "DeepseekV3Config", "GptOssConfig"])
def test_a_mixture_of_experts_is_counted_by_the_experts_that_a_token_goes_to(kind: str) -> None:
    if not hasattr(transformers.integrations.moe, "ALL_EXPERTS_FUNCTIONS"):
        pytest.skip("experts are counted from transformers 5 on")
    counted = []
    for chosen in (1, 3):
        config = getattr(transformers, kind)(
            hidden_size=32, intermediate_size=48, moe_intermediate_size=48, num_hidden_layers=2, vocab_size=50,
            num_attention_heads=4, num_key_value_heads=4, head_dim=8, q_lora_rank=None,
            num_experts_per_tok=chosen, num_local_experts=8, num_experts=8, n_routed_experts=8,
            qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=0, n_group=1, topk_group=1,
        )  # fmt: skip
        counted.append(Skeleton(config, transformers.AutoModel, kind).forward(16, 1))
    one_expert = 2 * 16 * 3 * 32 * 48  # gate, up and down for 16 tokens
    assert counted[1].operations - counted[0].operations == 2 * 2 * one_expert  # 2 more in each of 2 layers
    assert counted[1].peak_bytes >= counted[0].peak_bytes > 0


@pytest.mark.parametrize("tied", [True, False])
def test_a_head_for_words_is_not_read_unless_it_is_the_embeddings(*, tied: bool) -> None:
    config = LlamaConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=50,
                         tie_word_embeddings=tied)  # fmt: skip
    assert Skeleton(config, LlamaForCausalLM, "tiny").unread_bytes(0) == 4 * 50 * 8 * (1 if tied else 2)


@pytest.mark.usefixtures("quick_machine")
def test_a_config_alone_is_enough(tmp_path: Path, tiny_model: Callable[..., PreTrainedModel]) -> None:
    tiny_model("gpt2").config.save_pretrained(tmp_path)
    found = run_plan(str(tmp_path), 128, lengths=[16])
    assert [cost.tokens for cost in found.costs] == [16, 128]
    assert found.heads == 8
    json.dumps(found.document())


@pytest.mark.usefixtures("quick_machine")
def test_a_longer_text_never_costs_less(minilm_folder: Path) -> None:
    costs = run_plan("minilm", 300, lengths=[64, 128, 512]).costs
    for name in ("cells", "attentions_bytes", "sweep_peak_bytes", "run_bytes", "seconds"):
        values = [getattr(cost, name) for cost in costs]
        assert values == sorted(values), name


def test_speed_of_a_huge_model_is_measured_at_a_size_that_fits_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(calibration, "_fastest", lambda work, seconds: seen.append(work().numel()) or 1.0)
    monkeypatch.setattr(calibration, "attend", lambda query, key, value: query.new_empty(query[..., 0].numel()))
    monkeypatch.setattr(calibration, "eager", lambda query, key, value: query[..., 0])
    speed = calibrate(Shape(8192, heads=128, head_dim=4, key_heads=1), 2**15)
    assert seen == [512 * 4 * 2048, 32 * 1024, 32 * 1024]
    assert speed.products_per_second == 2 * 512 * 2048 * 4 * 2048
    assert speed.sweep_cell_seconds == speed.eager_cell_seconds == 1 / (32 * 1024**2)


def test_lengths_to_choose_from_end_at_the_models_positions() -> None:
    assert powers(512, 100) == [128, 256, 512]
    assert powers(None, 100)[-1] == 8192


def test_run_folder_grows_with_n_beyond_its_maps() -> None:
    small, large = (run_bytes(Shape(n, heads=4, head_dim=32)) for n in (4096, 8192))
    assert 1.5 < large / small < 2


def test_a_text_longer_than_the_positions_is_refused_with_both_numbers(minilm_folder: Path) -> None:
    with pytest.raises(InputError, match=r"at most 512 tokens.*got 513.*--tokens 512"):
        run_plan("minilm", 513)


def test_an_unknown_model_is_one_line() -> None:
    with pytest.raises(ModelError, match="no-such/model"):
        run_plan("no-such/model", 10)


@pytest.mark.parametrize("wrong", [{"hidden_size": "x"}, {"num_attention_heads": 0}, {"num_hidden_layers": -1}])
def test_a_config_with_sizes_that_are_none_is_one_clear_error(tmp_path: Path, wrong: dict[str, object]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "bert", "vocab_size": 30} | wrong))
    with pytest.raises(HeedmapError):
        run_plan(str(path), 16)

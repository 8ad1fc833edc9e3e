"""The translation model and its closed-form β."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from ktiwprobe import Batch, Corpus, Split, TorchModel
from ktiwprobe.data import EOS, SPECIALS, UNK
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe.models.attend import Under, uniform
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.probes.definitions import beta_by_definition, delta_by_definition
from ktiwprobe_paper import lexical
from ktiwprobe_paper.recurrent import drop
from ktiwprobe_paper.seq2seq import Seq2Seq

TOKENS = (*SPECIALS, *"abcdefghijklm")
LENGTHS = ((5, 4), (1, 1), (7, 2), (3, 6), (2, 1))  # words of x, pieces of y: of one token, and padded both ways
CELLS = list(product(("lstm", "gru"), (True, False)))


def make_corpus(*, joint: bool = True, kind: str = "translation") -> Corpus:
    """Five pairs, one of them of a single token each."""
    rng = np.random.default_rng(0)
    xs = [rng.integers(4, len(TOKENS), n).tolist() for n, _ in LENGTHS]
    ys = [[*rng.integers(4, len(TOKENS), n - 1).tolist(), EOS] for _, n in LENGTHS]
    return Corpus("tiny", kind, {"train": Split.of(xs, ys)}, TOKENS, TOKENS if joint else (*TOKENS, "more"))


def make_batch(rows: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Batch:
    """The chosen pairs, padded."""
    return make_corpus().split("train").batch(np.array(rows))


def make_model(*, scale: float = 3.0, joint: bool = True, **options: object) -> Seq2Seq:
    """A tiny model in evaluation mode, with weights large enough that attention is far from uniform."""
    torch.manual_seed(0)
    model = Seq2Seq.build(make_corpus(joint=joint), Seq2Seq.Options(**{"hidden": 6, **options})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def cells(batch: Batch) -> Tensor:
    """Where both t and l are real. (B, T, L)"""
    return batch.y_mask.unsqueeze(-1) & batch.x_mask.unsqueeze(1)


def count(model: torch.nn.Module) -> int:
    """Parameters, a shared one once."""
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("attention", ["learned", "uniform"])
@pytest.mark.parametrize(
    "options",
    [{}, {"layers": 3, "bidirectional": False}, {"heads": 3}, {"output": "linear", "layers": 1}, {"cell": "gru"}],
    ids=str,
)
def test_delta_in_one_pass_is_the_definition(
    options: dict[str, object], attention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All outputs back at once, also in blocks, give what one pass for each output gives; zero on padding."""
    monkeypatch.setattr("ktiwprobe_paper.saliency.CELLS", 2 * 5 * 7)  # two outputs at a time
    model, batch = make_model(**options).double(), make_batch()
    model = Under(model, uniform) if attention == "uniform" else model
    ours, real = model.delta(batch), cells(batch)
    torch.testing.assert_close(ours[real], delta_by_definition(model, batch)[real], rtol=1e-5, atol=1e-6)
    if "cell" not in options:
        assert not ours[~real].any()


@pytest.mark.parametrize("attention", ["learned", "uniform"])
def test_loss_and_evaluation_spare_padding(attention: str) -> None:
    """Products over real outputs only give the base class's loss, right answers and -log p."""
    model, batch = make_model(), make_batch()
    attend = uniform(batch.x_mask.unsqueeze(1)) if attention == "uniform" else None
    torch.testing.assert_close(model.loss(batch, attend=attend), TorchModel.loss(model, batch, attend=attend))
    torch.testing.assert_close(model.evaluate(batch, attend=attend), TorchModel.evaluate(model, batch, attend=attend))


def test_has_the_papers_parameter_count() -> None:
    """With V = 8000: 6,132,544 parameters, and 8,180,544 with embeddings (Appendix, Model and Training Details)."""
    model = Seq2Seq(8000, 8000, Seq2Seq.Options())
    assert count(model) == 8_180_544
    assert count(model) - count(model.embed) == 6_132_544
    copying = make_model(layers=1, bidirectional=False)  # the context of one direction, projected all the same
    assert copying.look[0].weight.shape == copying.project[0].weight.shape == (6, 6)


def test_state_has_every_weight_once() -> None:
    """A shared embedding is one entry, and constants of the padding trick are none."""
    model = make_model(layers=1)
    state = model.state()
    assert sum(value.numel() for value in state.values()) == count(model)
    assert "encoder.layers.0.weight_ih_l0_reverse" in state and not any("keep" in name for name in state)


def test_runs_on_the_meta_device() -> None:
    """Shapes can be had without numbers, lengths being on the CPU."""
    trace = make_model().to("meta").trace(make_batch().to("meta"))
    assert trace.logits is not None and trace.logits.shape == (5, 6, len(TOKENS)) and trace.alpha.shape == (5, 6, 7)


@pytest.mark.parametrize(("cell", "both"), CELLS)
@pytest.mark.parametrize("heads", [1, 3])
def test_a_sentence_alone_and_in_a_batch_is_the_same(cell: str, both: bool, heads: int) -> None:
    """Padding never shows: logits, alpha and beta of every sentence, one-token sentences included."""
    model = make_model(cell=cell, bidirectional=both, heads=heads)
    batch = make_batch()
    with torch.no_grad():
        together, beta = model.trace(batch), model.beta(batch)
        for row, (L, T) in enumerate(LENGTHS):
            alone = make_batch((row,))
            trace = model.trace(alone)
            torch.testing.assert_close(trace.logits[0], together.logits[row, :T], rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(trace.alpha[0], together.alpha[row][..., :T, :L], rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(model.beta(alone)[0], beta[row, :T, :L], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("heads", [1, 2])
def test_alpha_is_a_distribution_over_real_positions(heads: int) -> None:
    """Rows sum to 1, padding gets exactly 0, and a dimension for heads is there only if there are several."""
    batch, model = make_batch(), make_model(heads=heads)
    alpha = model.trace(batch).alpha.detach()
    assert alpha.shape == ((5, 6, 7) if heads == 1 else (5, 2, 6, 7))
    assert model.sites == (() if heads == 1 else ("h0", "h1"))
    torch.testing.assert_close(alpha.sum(-1), torch.ones(alpha.shape[:-1]))
    seen = batch.x_mask.view(5, *(1,) * (alpha.dim() - 2), 7)
    assert not alpha.masked_fill(seen, 0).any()


@pytest.mark.parametrize("heads", [1, 3])
def test_attending_as_the_model_would_changes_nothing(heads: int) -> None:
    """attend = own alpha gives the model's own logits; so does a state encoded before."""
    batch, model = make_batch(), make_model(heads=heads)
    own = model.trace(batch)
    told = model.trace(batch, attend=own.alpha, state=model.encode(batch))
    torch.testing.assert_close(told.logits, own.logits)
    torch.testing.assert_close(told.alpha, own.alpha)


def test_uniform_attention_is_the_mean_of_the_states() -> None:
    """Under uniform attention the context is P(mean of h), for every t; a double model takes it in float32."""
    batch, model = make_batch(), make_model().double()
    trace, (h, s, _) = model.trace(batch, attend=uniform(batch.x_mask.unsqueeze(1))), model.encode(batch)
    for row, (L, T) in enumerate(LENGTHS):
        c = model.project[0](h[row, :L].mean(0)).expand(T, -1)
        torch.testing.assert_close(trace.logits[row, :T], model.predict(c, s[row, :T]))


@pytest.mark.parametrize("combine", ["mean", "sum"])
def test_heads_combine_as_told(combine: str) -> None:
    """Two equal heads are one head (mean), or one head with its projection doubled (sum)."""
    one, two = make_model(), make_model(heads=2, combine=combine)
    state = one.state()
    two.load_state(
        {name: state[name.replace(".1.", ".0.") if name[:4] in ("look", "proj") else name] for name in two.state()}
    )
    if combine == "sum":
        for parameter in one.project.parameters():
            parameter.data *= 2
    torch.testing.assert_close(two.trace(make_batch()).logits, one.trace(make_batch()).logits)


@pytest.mark.parametrize(
    ("cell", "both", "output", "activation", "heads", "combine"),
    [
        *product(("lstm",), (True, False), ("mlp", "linear"), ("relu", "tanh"), (1, 3), ("mean",)),
        ("gru", True, "mlp", "tanh", 3, "sum"),
        ("gru", False, "linear", "relu", 1, "mean"),
    ],
)
def test_fast_beta_equals_its_definition(
    cell: str, both: bool, output: str, activation: str, heads: int, combine: str
) -> None:
    """The closed form is one-hot attention, position by position; zero on padding."""
    batch = make_batch()
    options = {"cell": cell, "bidirectional": both, "output": output, "activation": activation}
    model = make_model(**options, heads=heads, combine=combine, embeddings="separate")
    fast, slow = model.beta(batch), beta_by_definition(model, batch)
    torch.testing.assert_close(fast, slow.masked_fill(~cells(batch), 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [8.0, 60.0])
def test_fast_beta_survives_extreme_logits(scale: float) -> None:
    """Where a plain sum of exponentials overflows or underflows, the result is still the definition's."""
    batch, model = make_batch(), make_model(scale=scale)
    slow = beta_by_definition(model.double(), batch).float()
    assert (slow.abs() > 100).any() or scale < 60
    torch.testing.assert_close(model.float().beta(batch), slow.masked_fill(~cells(batch), 0), rtol=1e-4, atol=1e-4)


def test_fast_beta_does_not_depend_on_the_size_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few cells and a few outputs at a time, or all at once."""
    batch, model = make_batch(), make_model()
    whole = model.beta(batch)
    monkeypatch.setattr(lexical, "COLUMNS", 5)
    monkeypatch.setitem(lexical.BLOCK, "cpu", 7 * (5 + 4 * 6))
    torch.testing.assert_close(model.beta(batch), whole)
    assert torch.equal(model.beta(batch), model.beta(batch))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_gate_gives_the_delta_of_finite_differences(cell: str) -> None:
    """d log p(y_t) / d gate_l equals a central difference, in double precision."""
    batch, model = make_batch(), make_model(cell=cell).double()
    delta = delta_by_definition(model, batch)

    def log_p(gate: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.nn.functional.logsigmoid(log_odds(model.trace(batch, gate=gate), batch))

    step = 2.0**-12  # a gate comes in float32: 1 ± step is exact
    for place in range(batch.x.shape[1]):
        nudge = torch.zeros_like(batch.x, dtype=torch.float32).index_fill_(1, torch.tensor([place]), step)
        slope = (log_p(1 + nudge) - log_p(1 - nudge)) / (2 * step)
        real = cells(batch)[..., place]
        torch.testing.assert_close(delta[..., place].double()[real], slope[real], rtol=1e-4, atol=1e-4)


def test_the_decoder_reads_the_shifted_target() -> None:
    """Output t depends on y before t and on nothing from t on."""
    batch, model = make_batch((3,)), make_model()
    before = model.trace(batch).logits
    y = batch.y.clone()
    y[0, 3] = UNK
    after = model.trace(Batch(batch.x, batch.x_mask, batch.x_lengths, y, batch.y_mask)).logits
    assert torch.equal(before[:, :4], after[:, :4]) and not torch.allclose(before[:, 4:], after[:, 4:])


def test_dropout_is_between_layers_only() -> None:
    """With one layer there is nothing between; with two, train mode differs."""
    batch = make_batch()
    for layers, same in ((1, True), (2, False)):
        model = make_model(layers=layers)
        quiet = model.trace(batch).logits
        assert torch.allclose(model.train().trace(batch).logits, quiet) is same


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_dropout_keeps_the_mean(p: float) -> None:
    """A share 1 - p is kept and made larger by as much; the gradient goes where the value went."""
    torch.manual_seed(0)
    x = torch.ones(200, 500, requires_grad=True)
    out = drop(x, p)
    kept = out.detach() > 0
    assert abs(kept.float().mean() - (1 - p)) < 0.01
    assert torch.allclose(out[kept], torch.tensor(1 / max(1 - p, 1e-9)))
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(gradient, out)


def test_attention_parameters_move_alpha_and_leave_beta() -> None:
    """Exactly the maps W: changing them changes where the model looks, not what it knows."""
    batch, model = make_batch(), make_model(heads=2)
    alpha, beta = model.trace(batch).alpha, model.beta(batch)
    parameters = model.attention_parameters()
    assert sum(p.numel() for p in parameters) == 2 * (6 * 12 + 12)
    with torch.no_grad():
        for parameter in parameters:
            parameter.mul_(-1)
    assert not torch.allclose(model.trace(batch).alpha, alpha)
    assert torch.equal(model.beta(batch), beta)


def test_learns() -> None:
    """A few steps of Adam halve the loss, gradients reaching every parameter."""
    batch, model = make_batch(), make_model(scale=1.0, hidden=16, dropout=0.0).train()
    optimiser = model.optimiser(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        losses.append(loss.item())
        optimiser.step()
    assert losses[-1] < losses[0] / 2
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


def test_corpora_that_do_not_fit_are_refused() -> None:
    """The sentence names the model to use, or says what to pass, and passing it works."""
    with pytest.raises(CorpusError, match="lstm-classifier"):
        Seq2Seq.build(make_corpus(kind="classification"), Seq2Seq.Options())
    with pytest.raises(OptionError, match="-o embeddings=separate"):
        make_model(joint=False)
    model = make_model(joint=False, embeddings="separate")
    assert [table.num_embeddings for table in model.embed] == [len(TOKENS), len(TOKENS) + 1]


def test_heads_and_body_start_from_seeds_of_their_own(tiny_corpus):
    """A head's first weights hang on its seed alone, the body's on `init` alone, whatever the run's seed."""

    def build(seed, **options):
        torch.manual_seed(seed)
        return Seq2Seq.build(tiny_corpus, Seq2Seq.Options(hidden=8, layers=1, embeddings="separate", **options))

    one = build(0, init=3, head_inits=(7,))
    many = build(1, init=3, heads=3, head_inits=(5, 7, 9))
    other = build(1, init=4, head_inits=(8,))
    for name, weight in one.state().items():
        part = name.split(".")[0]
        theirs = name.replace(".0.", ".1.", 1) if part in ("look", "project") else name
        assert torch.equal(weight, many.state()[theirs]), name
        assert weight.ndim == 0 or "keep" in name or not torch.equal(weight, other.state()[name]), name


def test_redrawn_weights_are_distributed_as_torch_draws_them(tiny_corpus):
    """Fresh and redrawn weights have the same spread."""
    torch.manual_seed(0)
    options = Seq2Seq.Options(hidden=64, layers=1, embeddings="separate")
    fresh = Seq2Seq.build(tiny_corpus, options).state()
    drawn = Seq2Seq.build(tiny_corpus, replace(options, init=1, head_inits=(2,))).state()
    for name, weight in fresh.items():
        if weight.numel() > 1000:
            assert drawn[name].std() == pytest.approx(float(weight.std()), rel=0.1), name


def test_head_seeds_must_be_as_many_as_heads():
    """One for each."""
    with pytest.raises(ValueError, match="2 seeds for 3 heads"):
        Seq2Seq.Options(heads=3, head_inits=(1, 2))

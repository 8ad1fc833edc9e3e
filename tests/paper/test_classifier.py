"""The classification model, and the recurrent layers of both models."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ktiwprobe import Batch, Corpus, Split
from ktiwprobe.data import SPECIALS
from ktiwprobe.errors import CorpusError
from ktiwprobe.models.attend import uniform
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.probes.definitions import beta_by_definition, delta_by_definition
from ktiwprobe_paper import packed_lstm
from ktiwprobe_paper.classifier import Classifier
from ktiwprobe_paper.recurrent import Recurrent, packed, padded

TOKENS = (*SPECIALS, *"abcdefgh")
LENGTHS = (3, 1, 7, 1)


def make_corpus(*, kind: str = "classification", classes: tuple[str, ...] = ("negative", "positive")) -> Corpus:
    """Four sentences of different lengths."""
    rng = np.random.default_rng(0)
    xs = [rng.integers(4, len(TOKENS), n).tolist() for n in LENGTHS]
    return Corpus("tiny", kind, {"train": Split.of(xs, [[0], [1], [1], [0]])}, TOKENS, classes)


def make_batch(rows: tuple[int, ...] = (0, 1, 2, 3)) -> Batch:
    """The chosen sentences, padded."""
    return make_corpus().split("train").batch(np.array(rows))


def make_model(*, scale: float = 3.0) -> Classifier:
    """A tiny model in evaluation mode, with weights large enough that attention is far from uniform."""
    torch.manual_seed(0)
    model = Classifier.build(make_corpus(), Classifier.Options(embedding=5, hidden=4)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("lengths", [[6, 1, 2, 1], [5, 6, 4, 6], [6, 6, 6, 6]], ids=["tokens", "padded", "unpadded"])
def test_recurrent_equals_packed_sequences(cell: str, both: bool, lengths: list[int]) -> None:
    """Outputs, final states and gradients are those of packed sequences, layer by layer, however much is padding."""
    torch.manual_seed(1)
    net = Recurrent(cell, 5, 7, layers=2, bidirectional=both)
    lengths = torch.tensor(lengths)
    real = (torch.arange(6) < lengths.unsqueeze(1)).unsqueeze(-1)
    weigh = torch.randn(4, 6, net.width)

    def by_packing(x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        return net._through(x, lambda _, layer, x: packed(layer, x, lengths))

    results = []
    for read in (lambda x: net.read(x, lengths), by_packing):
        x = torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(2)).requires_grad_()
        out, final = read(x)
        loss = (out * real * weigh).sum() + sum((part**2).sum() for part in final)
        results.append([out * real, *final, *torch.autograd.grad(loss, [x, *net.parameters()])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("attention", ["learned", "uniform"])
def test_padding_is_spared_without_a_trace(attention: str) -> None:
    """Over real tokens only, logits, alpha and all gradients are those of the padded batch."""
    model, batch = make_model().double(), make_batch()
    assert model.encoder.worth_packing(batch.x_lengths, batch.x.shape[1])
    attend = uniform(batch.x_mask.unsqueeze(1)) if attention == "uniform" else None
    results = []
    for packed_by in (lambda gate: None, lambda gate: model.encode(batch, gate)):
        gate = torch.linspace(0.5, 1.5, batch.x.numel()).view(batch.x.shape).requires_grad_()
        trace = model.trace(batch, attend=attend, gate=gate, state=packed_by(gate))
        assert trace.logits is not None and trace.alpha.shape == (4, 1, 7)
        learning = [*model.embed.parameters(), *model.encoder.parameters(), *model.decide.parameters(), gate]
        learning += [] if attend is not None else [*model.look.parameters()]
        results.append([trace.logits, trace.alpha, *torch.autograd.grad(log_odds(trace, batch).sum(), learning)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("both", [True, False])
def test_real_tokens_go_on_from_given_states(both: bool) -> None:
    """In double precision an LSTM over packed tokens is torch's, gradients of first states and final c included."""
    torch.manual_seed(0)
    layer, lengths = nn.LSTM(5, 7, batch_first=True, bidirectional=both).double(), torch.tensor([3, 6, 1, 6])
    x, *start = (
        torch.randn(*size, dtype=torch.double).requires_grad_() for size in ((4, 6, 5), *[(1 + both, 4, 7)] * 2)
    )
    packing = packed_lstm.Packing.of(lengths, 6)

    def ours() -> tuple[Tensor, Tensor]:
        out, c = packed_lstm.run(layer, packing.pack(x), packing, [part[:, packing.order] for part in start])
        return packing.unpack(out, 4, 6), c[:, packing.back]

    def torchs() -> tuple[Tensor, Tensor]:
        sequence = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, (_, c) = layer(sequence, tuple(start))
        return pad_packed_sequence(out, batch_first=True)[0], c

    results = []
    for out, c in (ours(), torchs()):
        loss = (out * torch.arange(6.0).unsqueeze(-1)).sum() + (c**2).sum()
        results.append([out, c, *torch.autograd.grad(loss, [x, *start, *layer.parameters()])])
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_padding_of_any_size_leaves_no_trace(cell: str) -> None:
    """Huge values on 200 steps of padding change neither real outputs nor final states."""
    net = Recurrent(cell, 3, 4, bidirectional=True)
    x, lengths = torch.randn(2, 5, 3), torch.tensor([5, 4])
    far = torch.cat([x, 100 * torch.randn(2, 200, 3)], 1)
    (near_out, near), (far_out, final) = (padded(net.layers[0], v, lengths, net.keep) for v in (x, far))
    torch.testing.assert_close(near_out[0], far_out[0, :5])
    torch.testing.assert_close(near, final)


def test_has_the_papers_parameter_count() -> None:
    """1,274,882 without embeddings, and 300 a word more with them (Appendix, Model and Training Details)."""
    model = Classifier(12_488, Classifier.Options())  # 20 Newsgroups
    total = sum(parameter.numel() for parameter in model.parameters())
    assert total == 5_021_282
    assert total - model.embed.weight.numel() == 1_274_882


def test_a_sentence_alone_and_in_a_batch_is_the_same() -> None:
    """Padding never shows: logits, alpha and beta, a sentence of one token included."""
    model, batch = make_model(), make_batch()
    together, beta = model.trace(batch), model.beta(batch)
    for row, L in enumerate(LENGTHS):
        alone = make_batch((row,))
        trace = model.trace(alone)
        torch.testing.assert_close(trace.logits[0], together.logits[row], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(trace.alpha[0], together.alpha[row, :, :L], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(model.beta(alone)[0], beta[row, :, :L], rtol=1e-4, atol=1e-5)


def test_logits_and_alpha_are_those_of_a_translator_with_one_output() -> None:
    """T = 1, V = 2, the first logit 0; alpha sums to 1 and is 0 on padding."""
    batch = make_batch()
    trace = make_model().trace(batch)
    assert trace.logits.shape == (4, 1, 2) and not trace.logits[..., 0].any()
    torch.testing.assert_close(trace.alpha.sum(-1), torch.ones(4, 1))
    assert not trace.alpha.masked_fill(batch.x_mask.unsqueeze(1), 0).any()


def test_fast_beta_equals_its_definition() -> None:
    """(2y - 1)(w · h_l + b) is the log-odds of y under one-hot attention; zero on padding."""
    batch, model = make_batch(), make_model()
    slow = beta_by_definition(model, batch).masked_fill(~batch.x_mask.unsqueeze(1), 0)
    torch.testing.assert_close(model.beta(batch), slow)


def test_log_odds_are_the_mean_of_beta_under_attention() -> None:
    """Eq. 7: the output is linear in h, so γ = Σ α β, for the model's own attention and for a uniform one."""
    batch, model = make_batch(), make_model()
    for attend in (None, uniform(batch.x_mask.unsqueeze(1))):
        trace = model.trace(batch, attend=attend)
        torch.testing.assert_close(log_odds(trace, batch), (trace.alpha * model.beta(batch)).sum(-1))


def test_attending_as_the_model_would_changes_nothing() -> None:
    """attend = own alpha gives the model's own logits, from a state encoded before."""
    batch, model = make_batch(), make_model()
    own = model.trace(batch)
    torch.testing.assert_close(model.trace(batch, attend=own.alpha, state=model.encode(batch)).logits, own.logits)


def test_gate_gives_the_delta_of_finite_differences() -> None:
    """d log p(y) / d gate_l equals a central difference, in double precision."""
    batch, model = make_batch(), make_model().double()
    delta = delta_by_definition(model, batch)

    def log_p(gate: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.nn.functional.logsigmoid(log_odds(model.trace(batch, gate=gate), batch))

    step = 2.0**-12  # a gate comes in float32: 1 ± step is exact
    for place in range(batch.x.shape[1]):
        nudge = torch.zeros_like(batch.x, dtype=torch.float32).index_fill_(1, torch.tensor([place]), step)
        slope = (log_p(1 + nudge) - log_p(1 - nudge)) / (2 * step)
        real = batch.x_mask[:, place]
        torch.testing.assert_close(delta[real, :, place].double(), slope[real], rtol=1e-4, atol=1e-4)


def test_attention_parameters_move_alpha_and_leave_beta() -> None:
    """Q and v decide where to look, not what is known."""
    batch, model = make_batch(), make_model()
    alpha, beta = model.trace(batch).alpha, model.beta(batch)
    with torch.no_grad():
        for parameter in model.attention_parameters():
            parameter.mul_(-1)
    assert not torch.allclose(model.trace(batch).alpha, alpha)
    assert torch.equal(model.beta(batch), beta)


def test_runs_on_the_meta_device() -> None:
    """Shapes can be had without numbers."""
    assert make_model().to("meta").trace(make_batch().to("meta")).alpha.shape == (4, 1, 7)


def test_learns() -> None:
    """A few steps of Adam separate the classes, gradients reaching every parameter."""
    batch, model = make_batch(), make_model(scale=1.0).train()
    optimiser = model.optimiser(model.parameters(), lr=3e-2)
    for _ in range(60):
        optimiser.zero_grad()
        model.loss(batch).backward()
        optimiser.step()
    correct, total, _ = model.eval().evaluate(batch)
    assert correct == total == 4
    # a constant added to every attention logit changes nothing, so the last bias has no gradient
    moved = [name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()]
    assert {name for name, _ in model.named_parameters()} - set(moved) <= {"look.2.bias"}


@pytest.mark.parametrize(
    ("corpus", "words"),
    [
        (make_corpus(kind="translation"), "use lstm-seq2seq"),
        (make_corpus(classes=("a", "b", "c")), "3 classes"),
    ],
)
def test_other_corpora_are_refused(corpus: Corpus, words: str) -> None:
    """A translation corpus, or one of three classes, gets a sentence."""
    with pytest.raises(CorpusError, match=words):
        Classifier.build(corpus, Classifier.Options())

"""What the report says is what `agree` says; and it can be had of any group of runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from markupsafe import escape

from ktiwprobe import agree, train
from ktiwprobe.errors import CorpusError, UsageError
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.views.page import collect, render, viewer_html
from ktiwprobe.views.page.collect import MOST_STEPS
from ktiwprobe.views.page.findings import findings, halfway
from ktiwprobe.views.page.page import as_json
from ktiwprobe.views.page.sentences import BUDGET, choose, surprises


@pytest.fixture
def story(run_tiny, tiny_registry, tmp_path):
    """The data of a report of what was trained."""

    def tell(*names, **wishes):
        return collect(tmp_path / "runs", tiny_registry, names, device="cpu", **wishes)

    return tell


def test_the_table_is_what_agree_says(run_tiny, tiny_registry, tmp_path, story):
    """Each row has the value, interval, baseline and ξ of `agree` with the same SPECs."""
    for wishes in ({}, {"seed": 1}, {"attention": "uniform"}):
        run_tiny(**wishes)
    rows = story()["rows"]
    assert [row["specs"] for row in rows][:4] == [["alpha", v] for v in ("beta", "beta-hat", "beta-uf", "alpha-hat")]
    for row in rows:
        same = agree(*row["specs"], runs=tmp_path / "runs", device="cpu", registry=tiny_registry)
        assert same.to_dict() == {key: row[key] for key in same.to_dict()}


def test_the_curves_lead_to_the_table(run_tiny, story):
    """The table's value is on the curve: A's beta at A's best step, others' where they agree best; p is the log's."""
    runs = [run_tiny(**wishes) for wishes in ({}, {"seed": 1}, {"attention": "uniform"})]
    data = story()
    lines = {line["key"]: dict(line["points"]) for line in data["curves"]}
    assert list(lines) == ["beta", "beta-hat", "beta-uf", "hat", "p-hat", "p"]
    values = {row["specs"][1]: row["value"] for row in data["rows"] if row["specs"][0] == "alpha"}
    assert lines["beta"][runs[0].best_step()] == values["beta"]
    assert max(lines["beta-hat"].values()) == values["beta-hat"]
    assert max(lines["beta-uf"].values()) == values["beta-uf"]
    assert lines["p"] == runs[0].performance()
    assert lines["p-hat"] == runs[1].performance()


def test_one_run_is_enough(run_tiny, story):
    """Without a second seed there is no ξ and no α̂, but all else; the page says what to train."""
    run_tiny()
    data = story()
    assert [run["role"] for run in data["runs"]] == ["the run shown"]
    assert [row["xi"] for row in data["rows"]] == [None] * len(data["rows"])
    assert {line["key"] for line in data["curves"]} == {"beta", "p"}
    assert any("--seed 1" in sentence for sentence in data["missing"])
    assert any("--attention uniform" in sentence for sentence in data["missing"])
    assert "train one with <code>ktiwprobe train tiny-model --task tiny-task --seed 1</code>" in render(data)


def test_a_run_under_uniform_attention_alone(run_tiny, story):
    """Where no run has learned attention the page is of what there is."""
    run_tiny(attention="uniform")
    data = story()
    assert data["runs"][0]["attention"] == "uniform"
    assert render(data)


def test_a_model_without_attention(run_tiny, story):
    """A model that has β alone gets α as its share, no Δ, and a dictionary."""
    run_tiny("tiny-count")
    data = story()
    assert [probe["name"] for probe in data["views"][0]["probes"]] == ["alpha", "beta"]
    assert data["dictionary"]["words"]
    assert render(data)


def test_a_classifier(tmp_path):
    """One output a sentence: the same page, with words for labels."""
    small = {"hidden": 8, "task.train": 100, "validation": 20}
    train("lstm-classifier", steps=5, options=small, runs=tmp_path, device="cpu")
    from ktiwprobe import build_registry

    data = collect(tmp_path, build_registry(), device="cpu")
    assert {len(sentence["target"]) for sentence in data["sentences"]} == {1}
    (outputs,) = data["dictionary"]["words"][0]["said"]
    assert outputs
    assert all(0 < p <= 1 < lift < 100 for _, p, lift in outputs)
    assert render(data)


def test_named_runs_only(run_tiny, story):
    """Named runs are all that takes part; the first decides the group, and each can be looked at."""
    for seed in (0, 1, 2):
        run_tiny(seed=seed)
    data = story("tiny-model-s2", "tiny-model-s1")
    assert [run["name"] for run in data["runs"]] == ["tiny-task/tiny-model-s1", "tiny-task/tiny-model-s2"]
    assert [view["run"] for view in data["views"]] == ["tiny-task/tiny-model-s1", "tiny-task/tiny-model-s2"]


def test_another_model_beside(run_tiny, story):
    """Two models on one corpus: the other's α is compared with the first one's."""
    run_tiny()
    run_tiny(options={"width": 4}, name="narrow")
    data = story("tiny-model-s0", "narrow")
    assert data["rows"][-1]["label"] == "A(α, α of narrow)"
    assert data["runs"][-1]["role"] == "another model"


def test_different_corpora_are_refused(run_tiny, story):
    """Runs over different sentences cannot be in one report."""
    run_tiny()
    run_tiny(options={"variety": 1}, name="other")
    with pytest.raises(CorpusError, match=r"tiny-task/tiny-model-s0 and tiny-task.*/other are of different corpora"):
        story("tiny-model-s0", "other")


def test_how_many_sentences(run_tiny, story, tiny_registry):
    """A wish is kept to; without one the sample is as large as the budget allows; it is stated, and always the same."""
    extractor = Extractor(run_tiny(), tiny_registry, device="cpu")
    data = story(sentences=7)
    assert len(data["sentences"]) == 7
    assert "Shown: 7, drawn at random with a fixed seed, of 20 sentences" in render(data)
    assert [s["number"] for s in data["sentences"]] == [s["number"] for s in story(sentences=7)["sentences"]]
    assert "Shown: all 20 sentences" in render(story(sentences=99))
    cells = ((extractor.part.x.lengths + 8) * extractor.part.y.lengths).sum()
    assert len(choose(extractor, 1, None)) == 20
    few = choose(extractor, int(2 * BUDGET / cells), None)
    assert 5 <= len(few) <= 15
    assert len(choose(extractor, 10**9, None)) == 1
    assert len(choose(extractor, 10**9, 12)) == 12


def test_many_checkpoints_are_thinned(run_tiny, story):
    """The slider has at most so many steps, the first, the best and the last among them; the curves have all."""
    run = run_tiny(steps=60, options={"checkpoints": "every:1"})
    data = story(sentences=2)
    steps = data["views"][0]["steps"]
    assert MOST_STEPS - 1 <= len(steps) <= MOST_STEPS
    assert {0, run.best_step(), 60} <= set(steps)
    assert steps[data["views"][0]["best"]] == run.best_step()
    assert len(data["curves"][0]["points"]) == 61
    assert f"The slider has {len(steps)} of 61 checkpoints." in render(data)


def test_many_heads_have_fewer_steps(run_tiny, story):
    """Where a model has many heads the slider has fewer steps, so that sentences are left to show."""
    run_tiny(options={"heads": 10, "checkpoints": "every:1"})
    (view,) = story()["views"]
    assert 15 <= len(view["steps"]) <= 16
    assert len(view["probes"][0]["sites"]) == 10


def test_a_stand_in_of_another_corpus_is_left_out(run_tiny, story, tmp_path):
    """A proxy that reads the corpus in other pieces is not compared, and the page says why."""
    run_tiny()
    proxy = run_tiny("bow-proxy", "tiny-task", steps=2)
    record = json.loads((proxy.path / "run.json").read_text())
    record["corpus"] = dict.fromkeys(record["corpus"], "0" * 16)
    (proxy.path / "run.json").write_text(json.dumps(record))
    data = story()
    assert (
        "beta-px would be of tiny-task/bow-proxy-s0, which reads another corpus than tiny-task/tiny-model-s0"
        in (data["missing"])
    )
    assert [run["role"] for run in data["runs"]] == ["the run shown"]
    assert len(data["dictionary"]["columns"]) == 1


def test_surprise_is_the_loss(run_tiny, tiny_registry):
    """Over all outputs, the bits of surprise add up to the loss that the model itself reports, in nats."""
    extractor = Extractor(run_tiny(), tiny_registry, device="cpu")
    every = np.arange(len(extractor.part))
    bits = np.array(surprises(extractor, every)) * extractor.part.y.lengths
    model = extractor.model(extractor.step("best"))
    _, _, nll = model.evaluate(extractor.part.batch(every))
    assert bits.sum() * np.log(2) == pytest.approx(float(nll), rel=1e-3)


def test_findings_are_computed():
    """Half way is between the first point and the highest; what never rises has no half way."""
    assert halfway([[0, 0.1], [10, 0.4], [20, 0.6], [30, 0.9]]) == 20
    assert halfway([[0, 0.5], [10, 0.4]]) is None
    assert halfway([]) is None
    row = {"claim": "β ranks highest", "value": 0.5, "baseline": 0.1}
    lines = [
        {"key": "beta", "knowledge": "β", "points": [[0, 0], [5, 1]]},
        {"key": "hat", "points": [[0, 0], [5, 0.1], [9, 1]]},
    ]
    pointing, first = findings([row], lines)
    assert "In 50.0" in pointing
    assert "at step 5, before agreement with another seed's attention (step 9)" in first


def test_an_untrained_model_is_not_praised(tiny_registry, tmp_path):
    """A translator that never learned: the headline states why its number says nothing, and the page warns."""
    sizes = {"hidden": 16, "layers": 1, "task.train": 50, "task.validation": 12, "task.test": 4}
    train("lstm-seq2seq", steps=0, options=sizes, runs=tmp_path, registry=tiny_registry, device="cpu")
    data = collect(tmp_path, tiny_registry, device="cpu")
    (finding,) = data["findings"]
    assert finding.startswith("A(α, β) says little about word knowledge: ")
    assert "flat" in finding
    page = render(data)
    assert "% of outputs" not in page.partition("<h2>Agreement")[0]
    assert data["warnings"] == list(dict.fromkeys(w for row in data["rows"] for w in row["warnings"]))
    for warning in data["warnings"]:
        assert str(escape(warning)) in page
    assert "(best by accuracy)" in page


def test_findings_heed_warnings():
    """With a warning that a run is untrained there is no share of outputs and no order of events, only the warning."""
    row = {"claim": "β", "label": "A(α, β)", "value": 0.5, "baseline": 0.1, "uninformative": "m is new"}
    lines = [{"key": "beta", "knowledge": "β", "points": [[0, 0], [5, 1]]}, {"key": "hat", "points": [[0, 0], [9, 1]]}]
    assert findings([row], lines) == ["A(α, β) says little about word knowledge: m is new."]


def test_a_value_at_chance_is_no_finding():
    """Where the interval reaches down to chance the headline says that it does."""
    row = {"claim": "β ranks highest", "value": 0.21, "baseline": 0.2, "ci": [0.18, 0.25]}
    (said,) = findings([row], [])
    assert said.endswith("which is not above chance (20.0\N{NO-BREAK SPACE}%).")
    (said,) = findings([{**row, "ci": [0.205, 0.25]}], [])
    assert "not above chance" not in said


def test_nothing_is_left_out_without_a_reason(run_tiny, story):
    """What cannot be compared is stated once each, also where no run would help: a task without known alignments."""
    run_tiny()
    missing = story()["missing"]
    assert len(missing) == len(set(missing))
    for word in (
        "beta-hat needs",
        "beta-uf needs",
        "alpha-hat needs",
        "alpha-fr needs",
        "beta-px needs",
        "beta-ibm needs",
    ):
        assert any(sentence.startswith(word) for sentence in missing), word


def test_a_folder_of_any_name_is_reported(tiny_registry, tmp_path):
    """Runs whose path has the characters of a SPEC are compared like any others."""
    folder = tmp_path / "mine@home[1]:x"
    for name, width in (("wide", 8), ("narrow", 4)):
        train("tiny-model", name=name, options={"width": width}, runs=folder, registry=tiny_registry, device="cpu")
    data = collect(folder, tiny_registry, ("wide", "narrow"), device="cpu")
    assert data["rows"][-1]["label"] == "A(α, α of narrow)"
    assert (data["rows"][-1]["u_step"], data["rows"][-1]["v_step"]) == (30, 30)


def test_json_cannot_end_its_element():
    """Whatever a token holds, the script element that carries the data ends where we end it."""
    tokens = ["</script>", "<!--", "<script>", "\u2028", "&lt;", "\\u003c"]
    text = str(as_json(tokens))
    assert "<" not in text
    assert json.loads(text) == tokens


def test_the_page_loads_nothing(run_tiny, story):
    """No address, no import and no link out of the page; a policy forbids what a token might try."""
    run_tiny()
    page = render(story())
    assert "default-src 'none'" in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|<link|\ssrc=", page)


def test_assets_are_packaged(tmp_path):
    """The wheel holds every asset."""
    import subprocess
    import sys
    import zipfile

    root = Path(__file__).parents[2]
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", build, tmp_path], cwd=root, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        held = {Path(name).name for name in wheel.namelist() if "views/page/assets/" in name}
    assert held == {file.name for file in (root / "src/ktiwprobe/views/page/assets").iterdir()}


def test_what_cannot_be_viewed(run_tiny, tiny_registry):
    """No signal, or a sentence that is not there, is a sentence of ours."""
    signal = Extractor(run_tiny(), tiny_registry, device="cpu").signal("alpha")
    with pytest.raises(UsageError, match="there is no signal to view"):
        viewer_html([])
    with pytest.raises(UsageError, match=r"there is no sentence 20 in .*: it has 0 to 19"):
        viewer_html(signal, 20)


def test_a_signal_of_elsewhere_is_viewed():
    """A signal without tokens shows their numbers."""
    from ktiwprobe.signals.signal import make_signal

    page = viewer_html(make_signal(np.array([0.1, 0.9]), np.array([2]), np.array([1])))
    assert page.startswith("<iframe")
    assert "&quot;source&quot;:[&quot;0&quot;,&quot;1&quot;]" in page

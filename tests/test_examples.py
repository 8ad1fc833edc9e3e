"""The examples run, at tiny size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pseudo_terminal import on_terminal

ROOT = Path(__file__).parents[1]


@pytest.mark.xdist_group("demo")
def test_the_demo_trains_compares_and_draws(tmp_path: Path) -> None:
    """`make demo`'s script prints every comparison and writes its pictures, on a terminal and into a file alike."""
    small = ["--steps", "12", "-o", "hidden=16", "-o", "validation=30"]
    command = [sys.executable, ROOT / "examples/demo.py", "--out", tmp_path / "demo", *small]
    seen = on_terminal(command)
    assert seen.code == 0, seen.text
    assert "\x1b[?25l" in seen.text  # a bar was drawn, the cursor hidden
    assert seen.text.rindex("\x1b[?25h") > seen.text.rindex("\x1b[?25l")  # and shown again
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for word in ("alpha", "beta", "delta", "gold", "aer", "baseline", "95 % interval", "ξ"):
        assert word in done.stdout
        assert word in seen.text
    for picture in ("sentence.png", "training.png"):
        assert (tmp_path / "demo" / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.xdist_group("demo")
def test_an_error_in_a_script_gives_the_cursor_back(tmp_path: Path) -> None:
    """Progress drawn outside of a command ends with the process, so the terminal is not left without a cursor."""
    script = tmp_path / "script.py"
    script.write_text(
        "from ktiwprobe.views.progress import make_progress\n"
        "make_progress(quiet=False).begin('job', 10)\n"
        "raise ValueError('meant')\n"
    )
    seen = on_terminal([sys.executable, script])
    assert seen.code == 1
    assert "meant" in seen.text
    assert seen.text.rindex("\x1b[?25h") > seen.text.rindex("\x1b[?25l")


@pytest.mark.xdist_group("demo")
def test_the_notebook_runs_and_shows_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell of examples/look.ipynb, at tiny size; runs, signals, agreements, tables and views come out as HTML."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "examples/look.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert "STEPS, OPTIONS = 350, {}" in first.source
    small = 'STEPS, OPTIONS = 6, {"hidden": 16, "validation": 20, "train": 100}'
    first.source = first.source.replace("STEPS, OPTIONS = 350, {}", small).replace(
        "mkdtemp()", f"mkdtemp(dir={str(tmp_path)!r})"
    )
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": tmp_path}}).execute()
    shown = [output.data for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    assert len(shown) == 8
    assert sum("text/html" in data for data in shown) == 7
    assert sum("<iframe" in data.get("text/html", "") for data in shown) == 2
    assert "image/svg+xml" in shown[-1]


def test_a_training_of_ones_own_is_traced_and_reported(tmp_path: Path) -> None:
    """examples/trace_my_training.py trains two seeds with a Trainer, records both, compares them and writes a page."""
    small = ["--steps", "6", "--sentences", "8"]
    done = subprocess.run(
        [sys.executable, ROOT / "examples/trace_my_training.py", "--out", tmp_path, *small],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "recorded at steps [0, 4, 6]" in done.stdout
    for word in ("my-bart-s0:alpha", "my-bart-s1:beta", "ξ", "% of outputs"):
        assert word in done.stdout
    assert "my-data/my-bart-s0" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")  # of transformers, about files it writes itself
def test_a_model_of_llama2c_becomes_a_folder(tmp_path: Path) -> None:
    """Written in that format and read back, a tiny Llama says the same of the same text, and its pieces are joined."""
    import struct

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "max_position_embeddings": 32}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5}
    pieces = ["a", "b", " ", "ab", " ab", "aba"]
    config = LlamaConfig(**sizes, **heads, vocab_size=259 + len(pieces), tie_word_embeddings=False)
    network = LlamaForCausalLM(config).eval()
    spoken = [(b"?", 0.0)] * 259 + [(piece.encode(), -float(i)) for i, piece in enumerate(pieces)]
    body = b"".join(struct.pack("<fi", score, len(text)) + text for text, score in spoken)
    packed = tmp_path / "packed.data"
    packed.write_bytes(as_llama2c(network) + struct.pack("<i", 8) + body)
    command = [sys.executable, ROOT / "examples/llama2c_to_transformers.py", packed, packed, tmp_path / "folder"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert tokenizer.convert_ids_to_tokens(tokenizer("ab aba\n").input_ids) == ["<s>", "▁ab", "▁ab", "a", "<0x0A>"]
    ids = torch.tensor([[1, 260, 262, 259, 263, 264]])
    with torch.no_grad():
        found, expected = AutoModelForCausalLM.from_pretrained(tmp_path / "folder")(ids).logits, network(ids).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def as_llama2c(network) -> bytes:
    """Weights in the order of llama2.c, heads turned by neighbouring pairs."""
    import struct

    import torch

    config, state = network.config, network.state_dict()
    dim, heads, kv = config.hidden_size, config.num_attention_heads, config.num_key_value_heads

    def each(name: str) -> list[torch.Tensor]:
        return [state[f"model.layers.{i}.{name}.weight"] for i in range(config.num_hidden_layers)]

    def pairs(name: str, count: int) -> list[torch.Tensor]:
        return [w.view(count, 2, -1, dim).transpose(1, 2).reshape(-1, dim) for w in each(name)]

    header = (dim, config.intermediate_size, config.num_hidden_layers, heads, kv, -config.vocab_size, 32)
    tensors = [
        state["model.embed_tokens.weight"],
        *each("input_layernorm"),
        *pairs("self_attn.q_proj", heads),
        *pairs("self_attn.k_proj", kv),
        *(w for name in ("v_proj", "o_proj") for w in each(f"self_attn.{name}")),
        *each("post_attention_layernorm"),
        *(w for name in ("gate_proj", "down_proj", "up_proj") for w in each(f"mlp.{name}")),
        state["model.norm.weight"],
        torch.zeros(32, dim // heads),
        state["lm_head.weight"],
    ]
    return struct.pack("<7i", *header) + b"".join(t.contiguous().numpy().tobytes() for t in tensors)


def test_every_site_is_asked(tmp_path: Path) -> None:
    """examples/every_site.py says of each layer of a run's network what `agree` says of its last."""
    from ktiwprobe import agree, train

    sizes = {"hidden": 16, "heads": 2, "layers": 2, "task.train": 40, "task.validation": 8}
    run = train("hf-causal-lm", steps=2, options=sizes, runs=tmp_path)
    command = [sys.executable, ROOT / "examples/every_site.py", run.name, "--runs", tmp_path]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("self:")]
    assert [row[0] for row in rows] == ["self:0", "self:1"]
    assert float(rows[1][1]) == pytest.approx(agree("alpha@best", "beta@best", runs=tmp_path).value, abs=6e-4)

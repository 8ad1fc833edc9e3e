"""Watch your own training: a Trainer of transformers with our callback, two seeds, and a report of what came when.

The model is a small BART from scratch, the corpus a generated one; both would be yours. Needs `ktiwprobe[trainer]`.
"""

import argparse
from pathlib import Path

import torch
from transformers import BartConfig, BartForConditionalGeneration, Trainer, TrainingArguments

from ktiwprobe import Corpus, Split, agree, build_registry
from ktiwprobe.views.page import collect, render
from ktiwprobe.views.tables import show_agreement
from ktiwprobe_transformers import Tracer

PAD, START, END = 0, 1, 2  # as in our generated corpora


def make_network(words: int, seed: int) -> BartForConditionalGeneration:
    torch.manual_seed(seed)
    sides = {"layers": 1, "attention_heads": 2, "ffn_dim": 128}
    sizes = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sides.items()}
    special = {"pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": START}
    return BartForConditionalGeneration(
        BartConfig(
            vocab_size=words, d_model=64, init_std=0.125, max_position_embeddings=64, forced_eos_token_id=None,
            **sizes, **special,
        )
    )  # fmt: skip


def collate(rows: list[dict]) -> dict[str, torch.Tensor]:
    def pad(name: str, value: int) -> torch.Tensor:
        sides = [torch.tensor(row[name]) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(sides, batch_first=True, padding_value=value)

    x = pad("input_ids", PAD)
    return {"input_ids": x, "attention_mask": (x != PAD).long(), "labels": pad("labels", -100)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("traced"), help="folder of runs and checkpoints")
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--sentences", type=int, default=60, help="of the probe set")
    arguments = parser.parse_args()

    task = build_registry().load("tasks", "toy-translation")()
    corpus = task.load(task.Options(validation=arguments.sentences))
    shift = corpus.source_size  # one vocabulary for both languages, target words after source words

    def examples(name: str) -> list[dict]:
        split = corpus.split(name)
        outputs = [[i if i < 4 else int(i) + shift for i in split.y[row]] for row in range(len(split))]
        return [{"input_ids": split.x[row].tolist(), "labels": y} for row, y in enumerate(outputs)]

    training, probed = examples("train"), examples("validation")
    # with a tokenizer of transformers `probed` itself would do; a Corpus says what our ids mean, to be read by people
    words = (*corpus.source_tokens, *corpus.target_tokens)
    sides = ([row[side] for row in probed] for side in ("input_ids", "labels"))
    probe_set = Corpus("my-data", "translation", {"validation": Split.of(*sides)}, words, words)
    runs = arguments.out / "runs"
    for seed in (0, 1):
        tracer = Tracer(probe_set, model="my-bart", task="my-data", at="log", runs=runs, overwrite=True)
        settings = TrainingArguments(
            output_dir=str(arguments.out / f"trainer-{seed}"), max_steps=arguments.steps, seed=seed, learning_rate=3e-3,
            per_device_train_batch_size=32, save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(), dataloader_pin_memory=False,
        )  # fmt: skip
        network = make_network(shift + corpus.target_size, seed)
        Trainer(network, settings, train_dataset=training, data_collator=collate, callbacks=[tracer]).train()
        print(f"{tracer.run.path}: recorded at steps {tracer.run.steps()}", flush=True)

    print(
        show_agreement(
            [agree(u, v, runs=runs) for u, v in (("alpha", "beta"), ("alpha", "beta-hat"), ("alpha", "delta"))]
        )
    )
    story = collect(runs, build_registry())
    print(*story["findings"], sep="\n")
    page = arguments.out / "report.html"
    page.write_text(render(story), encoding="utf-8")
    print(f"{page}: open it in a browser; next: ktiwprobe show --runs {runs}")


if __name__ == "__main__":
    main()

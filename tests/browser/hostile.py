"""A plugin for the browser's tests: the tiny task with tokens that attack a page, or are hard to show."""

from __future__ import annotations

from typing import Any

from ktiwprobe import Corpus, hookimpl
from ktiwprobe.data import SPECIALS
from tiny import TinyModel, TinyTask

SOURCE = (
    "<script>throw 1</script>",
    "</script><img src=//x.test>",
    "مرحبا",
    "東京",
    '"&quot;',
    "a" * 60,
    "{{ 7*7 }}",
    "▁ok",
)
TARGET = ("<b>b0</b>", "]]>", "שלום", "翻訳", "'", "<!--", "\\u003c", "▁b7")


class HostileTask(TinyTask):
    """Sentences of tiny-task in other words."""

    def load(self, options: Any) -> Corpus:
        plain = super().load(options)
        words = (*SPECIALS, *SOURCE), (*SPECIALS, *TARGET)
        return Corpus("hostile-task", "translation", plain.splits, *words)


class HostileModel(TinyModel):
    """The tiny model with two heads."""

    default_task = "hostile-task"


@hookimpl
def register_tasks(register: Any) -> None:
    """One task."""
    register("hostile-task", HostileTask, summary="tokens that attack a page")


@hookimpl
def register_models(register: Any) -> None:
    """One model."""
    register("hostile-model", HostileModel, summary="tiny")

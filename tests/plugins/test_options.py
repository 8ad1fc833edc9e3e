"""Options: every type read strictly, every mistake a sentence that helps."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktiwprobe.errors import OptionError
from ktiwprobe.plugins.options import (
    NoOptions,
    as_dict,
    changed,
    fill,
    option,
    options_of,
    parse_pairs,
    read_toml,
    short_hash,
    sort_into_spaces,
)


@dataclass(frozen=True)
class Everything:
    """One field of each kind."""

    whole: int = option(3, low=1, high=10**9, help="an integer")
    share: float = option(0.5, low=0.0, high=1.0)
    free: float = 0.0
    on: bool = False
    word: str = "hello"
    cell: Literal["lstm", "gru"] = "lstm"
    sizes: tuple[int, ...] = option((1, 2), low=0)
    pair: tuple[int, str] = (1, "a")
    limit: int | None = None
    either: int | str = 1
    names: list[str] = field(default_factory=lambda: ["x"])


@dataclass(frozen=True)
class Model:
    """Shares `seed` and `lr` with nobody, `size` with Task."""

    hidden: int = 1
    size: int = 1


@dataclass(frozen=True)
class Task:
    """Sizes of a corpus."""

    size: int = 1
    words: int = 1


def one(key: str, value: object) -> Any:
    """What `key` becomes."""
    return getattr(fill(Everything, {key: value}, space="model"), key)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("whole", "7", 7), ("whole", " 7", 7), ("whole", "1e4", 10000), ("whole", "1_000", 1000), ("whole", "+7", 7),
        ("share", "1", 1.0), ("share", "5e-1", 0.5), ("free", "-2.5", -2.5),
        ("on", "true", True), ("on", "Yes", True), ("on", "ON", True), ("on", "1", True),
        ("on", "false", False), ("on", "no", False), ("on", "off", False), ("on", "0", False),
        ("word", "", ""), ("word", "1", "1"), ("word", "a=b", "a=b"),
        ("cell", "gru", "gru"),
        ("sizes", "3,4,5", (3, 4, 5)), ("sizes", "", ()), ("sizes", "3", (3,)), ("pair", "2,b", (2, "b")),
        ("names", "p,q", ["p", "q"]), ("limit", "none", None), ("limit", "4", 4),
        ("either", "4", 4), ("either", "four", "four"),
    ],
)  # fmt: skip
def test_text_is_read_as_the_type_of_its_field(key: str, text: str, value: object) -> None:
    """Every kind of field has a text form."""
    assert one(key, text) == value
    assert type(one(key, text)) is type(value)


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("whole", 7, 7), ("share", 1, 1.0), ("share", 0.25, 0.25), ("on", True, True), ("word", "x", "x"),
        ("sizes", [3, 4], (3, 4)), ("sizes", (3, 4), (3, 4)), ("limit", None, None), ("either", "x", "x"),
    ],
)  # fmt: skip
def test_values_of_toml_and_python_are_read_too(key: str, value: object, read: object) -> None:
    """A value that already has the type stays, and an int may stand for a float."""
    assert one(key, value) == read
    assert type(one(key, value)) is type(read)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("whole", "many", "model.whole is 'many': it must be a whole number"),
        ("whole", "1.5", "whole number"), ("whole", 1.5, "whole number"), ("whole", True, "whole number"),
        ("whole", "nan", "whole number"), ("whole", "inf", "whole number"), ("whole", "", "whole number"),
        ("whole", "²", "whole number"), ("whole", "1e400", "whole number"),
        ("whole", "0", "model.whole is 0: it must be at least 1 and at most 1000000000"),
        ("whole", 2 * 10**9, "at most 1000000000"),
        ("share", "half", "must be a number"), ("share", True, "must be a number"), ("share", None, "must be a number"),
        ("share", "1.01", "at least 0.0 and at most 1.0"), ("share", -0.01, "at least 0.0"),
        ("share", "nan", "finite"), ("free", "inf", "finite"),
        ("free", float("nan"), "finite"), ("free", float("inf"), "finite"),
        ("on", "maybe", "true or false"), ("on", 1, "true or false"), ("on", "", "true or false"),
        ("word", 3, "must be text"),
        ("cell", "rnn", "must be one of lstm, gru"),
        ("sizes", "1,x", "whole number"), ("sizes", 3, "a list such as 1,2,3"), ("sizes", "1,-1", "at least 0"),
        ("pair", "1", "a list of 2"), ("pair", "1,b,c", "a list of 2"),
        ("limit", "x", "whole number"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_what_it_must_be(key: str, value: object, sentence: str) -> None:
    """Wrong types and values out of range are errors, never guesses."""
    with pytest.raises(OptionError) as caught:
        one(key, value)
    assert f"model.{key}" in str(caught.value)
    assert sentence in str(caught.value)


@given(st.integers(1, 10**9), st.floats(0, 1), st.booleans(), st.lists(st.integers(0)))
def test_options_survive_json(whole: int, share: float, on: bool, sizes: list[int]) -> None:
    """What a run's record says is what the options were, exactly."""
    options = fill(Everything, {"whole": whole, "share": share, "on": on, "sizes": sizes}, space="model")
    assert fill(Everything, as_dict(options), space="model") == options
    texts = {"whole": str(whole), "share": repr(share), "on": str(on), "sizes": ",".join(map(str, sizes))}
    assert fill(Everything, texts, space="model") == options


def test_an_unknown_key_suggests_the_nearest() -> None:
    """A typing mistake is pointed out, and all keys are listed."""
    with pytest.raises(OptionError, match=r"unknown option model.shar; did you mean 'share'\? known: .*word"):
        fill(Everything, {"shar": 1}, space="model")


def test_a_required_option_is_asked_for() -> None:
    """A field without a default must be given, and the sentence says how."""

    @dataclass(frozen=True)
    class Needs:
        path: str

    with pytest.raises(OptionError, match=r"task\.path is needed: pass -o path=VALUE"):
        fill(Needs, {}, space="task")


def test_an_authors_own_check_speaks_through_value_error() -> None:
    """Options that do not fit together are a sentence too."""

    @dataclass(frozen=True)
    class Together:
        a: int = 1

        def __post_init__(self) -> None:
            if self.a % 2 == 0:
                raise ValueError("a must be odd")

    assert fill(Together, {"a": "3"}, space="model").a == 3
    with pytest.raises(OptionError, match="the model options do not fit together: a must be odd"):
        fill(Together, {"a": 2}, space="model")


def test_a_class_without_options_takes_none() -> None:
    """The options class is optional."""
    assert options_of(object) is NoOptions
    with pytest.raises(OptionError, match=r"unknown option model\.x: there are none"):
        fill(NoOptions, {"x": 1}, space="model")


# spaces


def test_keys_find_their_space() -> None:
    """A prefix decides; without one, the only space that has the key."""
    values = {"hidden": 1, "task.size": 2, "words": 3, "model.size": 4}
    expected = {"task": {"size": 2, "words": 3}, "model": {"hidden": 1, "size": 4}}
    assert sort_into_spaces(values, {"task": Task, "model": Model}) == expected


def test_an_ambiguous_key_names_its_prefixed_forms() -> None:
    """A bare key that two spaces have is not guessed."""
    with pytest.raises(OptionError, match=r"'size' is ambiguous: write task\.size or model\.size"):
        sort_into_spaces({"size": 1}, {"task": Task, "model": Model})


@pytest.mark.parametrize(("key", "near"), [("hiden", "hidden"), ("modle.hidden", "model.hidden"), ("zzz", "")])
def test_an_unknown_bare_key_suggests_and_lists(key: str, near: str) -> None:
    """A key of no space suggests the nearest and lists all with their prefixes."""
    with pytest.raises(OptionError) as caught:
        sort_into_spaces({key: 1}, {"task": Task, "model": Model})
    assert f"unknown option {key!r};" in str(caught.value)
    assert f"did you mean {near!r}?" in str(caught.value) or not near
    assert "known: task.size, task.words, model.hidden, model.size" in str(caught.value)


# KEY=VALUE and TOML


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    """A value may hold anything, and the last of two wins."""
    assert parse_pairs(["a=1", "b = x=y", "c=", "a=2"]) == {"a": "2", "b": " x=y", "c": ""}


@pytest.mark.parametrize("pair", ["a", "=1", " =1", ""])
def test_a_pair_without_key_or_value_is_refused(pair: str) -> None:
    """What is not KEY=VALUE is quoted back."""
    with pytest.raises(OptionError, match="is not KEY=VALUE"):
        parse_pairs([pair])


def test_toml_tables_are_spaces(tmp_path: Path) -> None:
    """A table is a prefix, a key outside any table is a bare key."""
    file = tmp_path / "a.toml"
    file.write_text('lr = 0.1\n[model]\nhidden = 8\nsizes = [1, 2]\nname = "ü"\n', encoding="utf-8")
    assert read_toml(file) == {"lr": 0.1, "model.hidden": 8, "model.sizes": [1, 2], "model.name": "ü"}


@pytest.mark.parametrize(("content", "sentence"), [(b"a = ", "not a TOML file"), (b"\xff", "not a TOML file")])
def test_a_bad_toml_file_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    """A file that is not TOML, or not text, is one sentence with its path."""
    file = tmp_path / "a.toml"
    file.write_bytes(content)
    with pytest.raises(OptionError, match=f"a.toml is {sentence}"):
        read_toml(file)


def test_a_missing_toml_file_is_named(tmp_path: Path) -> None:
    """A file that is not there, or is a folder, is one sentence."""
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(OptionError, match=f"cannot read {path}"):
            read_toml(path)


# identity


def test_only_what_differs_from_the_default_is_changed() -> None:
    """Saying a default aloud does not make another run, whatever the kind of field."""
    same = {"whole": 3, "sizes": "1,2", "cell": "lstm", "limit": "none"}
    assert changed(fill(Everything, same, space="model"), same) == {}
    assert changed(Everything(), {"names", "sizes", "whole"}) == {}
    other = {"whole": 4, "sizes": "1", "cell": "lstm"}
    assert changed(fill(Everything, other, space="model"), other) == {"whole": 4, "sizes": [1]}


def test_short_hashes_stand_for_values_not_their_order() -> None:
    """Six characters, the same for the same values in any order, none for none."""
    assert short_hash({}) == ""
    assert short_hash({"a": 1, "b": [2]}) == short_hash({"b": [2], "a": 1})
    assert len({short_hash({"a": value}) for value in range(200)}) == 200
    assert len(short_hash({"a": 1})) == 6

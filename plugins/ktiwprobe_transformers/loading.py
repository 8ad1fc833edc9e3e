"""Pretrained models, configs and tokenizers from a folder or the hub; what can go wrong is told in a sentence."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from huggingface_hub.constants import ENDPOINT
from torch import nn
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig
from transformers.utils import logging

from ktiwprobe.errors import OptionError, suggest

T = TypeVar("T")


def load_config(path: str, *, remote_code: bool) -> PretrainedConfig:
    """The config of a pretrained model."""
    check_folder(path)
    config: PretrainedConfig = _fetch(path, lambda **where: AutoConfig.from_pretrained(path, **where), remote_code)
    return config


def load_tokenizer(path: str, *, remote_code: bool) -> Any:
    """The tokenizer of a pretrained model."""
    check_folder(path)
    try:
        tokenizer = _fetch(path, lambda **where: AutoTokenizer.from_pretrained(path, **where), remote_code)
    except OptionError as error:
        raise _no_tokenizer(path, error) from error
    except (ValueError, TypeError, KeyError, ImportError) as error:
        raise OptionError(
            f"{path} has no tokenizer that can be read ({_short(error)}): add its tokenizer.json"
        ) from error
    if not _has_words(tokenizer):
        raise OptionError(
            f"{path} has no tokenizer files, and the {type(tokenizer).__name__} made without them knows no word: add "
            "its tokenizer.json, or the vocabulary it was saved with"
        )
    return tokenizer


def _no_tokenizer(path: str, error: OptionError) -> OptionError:
    """Why a folder gave no tokenizer, if that is for want of files."""
    names = [name for name in ("tokenizer.json", "tokenizer.model") if (Path(path) / name).is_file()]
    if not Path(path).is_dir() or names or "remote_code" in str(error):
        return error
    return OptionError(
        f"{path} has no tokenizer files: tokenizer.json is missing, or the vocabulary that it is made from; save the "
        "model's own tokenizer there, with tokenizer.save_pretrained(folder)"
    )


def _has_words(tokenizer: Any) -> bool:
    """Whether a tokenizer knows any token that is not special and not a mere sign of a blank."""
    special = set(tokenizer.all_special_ids)
    if len(tokenizer) > len(special) + 2:  # large vocabularies are not listed for this
        return True
    return any(text.strip("▁Ġ ") for text, i in tokenizer.get_vocab().items() if i not in special)


def load_network(
    auto: Any, path: str, config: PretrainedConfig, *, remote_code: bool, pickle: bool
) -> tuple[nn.Module, frozenset[str]]:
    """The network of an Auto class, and the names of weights that did not come with it and were drawn afresh."""
    if type(config) not in auto._model_mapping and not remote_code:
        raise unsupported(auto, config)
    safe = {} if pickle else {"use_safetensors": True}
    rest = {"config": config, "dtype": torch.float32, **safe}
    if Path(path).is_dir() and not pickle:
        _refuse_pickle(Path(path))
    network, info = _fetch(
        path, lambda **where: auto.from_pretrained(path, output_loading_info=True, **rest, **where), remote_code
    )
    return network, frozenset(info["missing_keys"])


def make_network(auto: Any, config: PretrainedConfig, *, empty: bool = False) -> nn.Module:
    """The network of an Auto class with random weights, or with none (on the meta device), to look at."""
    with quiet(), torch.device("meta") if empty else contextlib.nullcontext():
        if type(config) not in auto._model_mapping:
            raise unsupported(auto, config)
        try:
            network: nn.Module = auto.from_config(config)
        except ImportError as error:
            raise OptionError(
                f"architecture {config.model_type!r} needs a library that is not installed: "
                f"{' '.join(str(error).split()).partition('. ')[0].rstrip('.')}"
            ) from error
        except Exception as error:  # whatever the author of an architecture lets happen
            raise OptionError(
                f"transformers cannot build architecture {config.model_type!r} with these settings: "
                f"{type(error).__name__}: {_short(error)}; write a config.json with others and pass -o config=FILE"
            ) from error
    return network


def unsupported(auto: Any, config: PretrainedConfig) -> OptionError:
    """That there is no network of this kind for a config."""
    what = auto.__name__.removeprefix("AutoModelFor")
    return OptionError(
        f"architecture {config.model_type!r} has no {what} model"
        + suggest(config.model_type, {c.model_type for c in auto._model_mapping})
    )


def check_folder(path: str) -> None:
    """Refuse what looks like a folder and is none, or is one without a model."""
    folder = Path(path)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise OptionError(f"folder {path} has no config.json: pass the folder of a saved Hugging Face model")
    is_name = path.count("/") <= 1 and not path.startswith((".", "/", "~")) and "\\" not in path
    if not folder.is_dir() and folder.suffix != ".json" and (folder.exists() or not is_name):
        raise OptionError(
            f"there is no folder {path}: pass a folder with config.json and weights, or a name on the hub"
        )


def _refuse_pickle(folder: Path) -> None:
    if not any(folder.glob("*.safetensors")) and any(folder.glob("*.bin")):
        raise OptionError(
            f"the weights in {folder} are pickled, and loading a pickle runs whatever code is in it: convert them to "
            "safetensors, or pass -o pickle=true if you trust where they come from"
        )


def _fetch(path: str, load: Callable[..., T], remote_code: bool) -> T:
    """What `load` gives: from this machine if it is there, else from the hub."""
    asked = {"trust_remote_code": remote_code}
    with quiet():
        try:
            return load(local_files_only=True, **asked)
        except OSError as error:
            if Path(path).exists():
                raise OptionError(f"{path} does not hold what is needed: {_short(error)}") from error
        except ValueError as error:
            raise _not_trusted(path, error) from error
        _check_network(path)
        try:
            return load(**asked)
        except OSError as error:
            raise _not_found(path, _short(error)) from error
        except ValueError as error:
            raise _not_trusted(path, error) from error


def _check_network(path: str) -> None:
    """Say at once that there is no network: the hub's own attempts take half a minute."""
    address = urlsplit(ENDPOINT)
    if getproxies() or address.hostname is None:
        return
    try:
        with socket.create_connection((address.hostname, address.port or 443), timeout=5):
            pass
    except OSError as error:
        raise _not_found(path, f"no connection to {address.hostname}: {error}") from error


def _not_found(path: str, why: str) -> OptionError:
    return OptionError(
        f"{path} is no folder here, and the hub does not give it ({why}): check the name or, without a network, run "
        f"`hf download {path} --local-dir FOLDER` where there is one and pass -o path=FOLDER"
    )


def _not_trusted(path: str, error: ValueError) -> Exception:
    if "trust_remote_code" in str(error):
        return OptionError(
            f"{path} needs Python code that comes with its weights: read it, then pass -o remote_code=true to run it"
        )
    return OptionError(f"{path} cannot be loaded: {_short(error)}")


def _short(error: Exception) -> str:
    return shorten(str(error), 160, placeholder=" ...").rstrip(". ")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No reports and no progress bars of transformers, for a while."""
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]

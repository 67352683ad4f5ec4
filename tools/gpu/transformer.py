"""A decoder transformer in the shape of Llama, with random weights and a cache of keys and values.

Root mean square norms, rotary positions, grouped-query attention and SwiGLU. A forward pass takes
tokens of many sequences at once: one token of each sequence that generates, and chunks of prompts.
The linear layers see all of them as one matrix. The cache has one slot for each sequence.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    hidden: int
    vocabulary: int

    def parameters(self):
        """The numbers in the matrices."""
        heads = 2 * (self.heads + self.kv_heads) * self.head_width
        layer = self.width * (heads + 3 * self.hidden)
        return self.layers * layer + 2 * self.vocabulary * self.width


SHAPES = {
    "toy": Shape(2, 64, 4, 2, 16, 160, 1000),
    "1b": Shape(16, 2048, 32, 8, 64, 8192, 32000),
    "3b": Shape(28, 3072, 24, 8, 128, 8192, 32000),
    "8b": Shape(32, 4096, 32, 8, 128, 14336, 32000),
}


@dataclass(frozen=True)
class Chunk:
    """Consecutive tokens of a prompt: rows of the pass, and positions in a slot."""

    row: int
    slot: int
    begin: int
    length: int


@dataclass
class Pass:
    """The tokens of a forward pass: first one of each generating sequence, then the chunks."""

    tokens: list
    positions: list
    slots: list
    generating: int
    chunks: list
    # The rows whose next token is wanted.
    ends: list


@dataclass
class Layer:
    norm: object
    qkv: object
    out: object
    hidden_norm: object
    gate_up: object
    down: object


class Transformer:
    def __init__(self, arrays, shape, seed=1):
        self.arrays, self.shape = arrays, shape
        generator = arrays.generator(seed)
        heads = shape.heads + 2 * shape.kv_heads

        def matrix(rows, columns):
            return arrays.random((rows, columns), rows**-0.5, generator)

        self.embedding = arrays.random((shape.vocabulary, shape.width), 1.0, generator)
        self.layers = [
            Layer(
                arrays.ones(shape.width),
                matrix(shape.width, heads * shape.head_width),
                matrix(shape.heads * shape.head_width, shape.width),
                arrays.ones(shape.width),
                matrix(shape.width, 2 * shape.hidden),
                matrix(shape.hidden, shape.width),
            )
            for _ in range(shape.layers)
        ]
        self.norm = arrays.ones(shape.width)
        self.head = matrix(shape.width, shape.vocabulary)

    def cache(self, slots, length):
        """An empty cache, and the rotations of its positions."""
        return Cache(self.arrays, self.shape, slots, length)

    def next_tokens(self, batch, cache):
        """Writes the keys and values of the tokens, and returns the most likely next tokens."""
        arrays = self.arrays
        cache.prepare(batch)
        x = self.embedding[arrays.ints(batch.tokens)]
        for layer, keys, values in zip(self.layers, cache.keys, cache.values):
            x = x + self.attend(layer, arrays.rms_norm(x, layer.norm), cache, (keys, values))
            gate_up = arrays.rms_norm(x, layer.hidden_norm) @ layer.gate_up
            hidden = arrays.silu(gate_up[:, : self.shape.hidden]) * gate_up[:, self.shape.hidden :]
            x = x + hidden @ layer.down
        if not batch.ends:
            return []
        ends = arrays.rms_norm(x[arrays.ints(batch.ends)], self.norm)
        return arrays.host(arrays.largest(ends @ self.head))

    def attend(self, layer, x, cache, stored):
        shape, rows = self.shape, x.shape[0]
        mixed = (x @ layer.qkv).reshape(rows, -1, shape.head_width)
        rotated = cache.rotate(mixed[:, : shape.heads + shape.kv_heads])
        queries, new_keys = rotated[:, : shape.heads], rotated[:, shape.heads :]
        keys, values = stored
        keys[cache.slots, :, cache.positions] = new_keys
        values[cache.slots, :, cache.positions] = mixed[:, shape.heads + shape.kv_heads :]
        queries = queries.reshape(rows, shape.kv_heads, -1, shape.head_width)
        parts = [cache.attend_chunk(queries, stored, chunk) for chunk in cache.chunks]
        if cache.generating:
            parts.insert(0, cache.attend_slots(queries, stored))
        return self.arrays.library.concatenate(parts) @ layer.out


class Cache:
    """Keys and values of all slots, and what a forward pass needs to know of them."""

    def __init__(self, arrays, shape, slots, length):
        self.arrays, self.shape, self.slot_count, self.length = arrays, shape, slots, length
        size = (slots, shape.kv_heads, length, shape.head_width)
        self.keys = [arrays.zeros(size) for _ in range(shape.layers)]
        self.values = [arrays.zeros(size) for _ in range(shape.layers)]
        self.scale = shape.head_width**-0.5
        half = shape.head_width // 2
        angles = [[p * 10000.0 ** (-i / half) for i in range(half)] for p in range(length)]
        self.cosines = arrays.floats([[math.cos(a) for a in row] for row in angles])
        self.sines = arrays.floats([[math.sin(a) for a in row] for row in angles])
        self.order = arrays.ints(range(length))

    def prepare(self, batch):
        """Computes once what every layer of a forward pass uses."""
        arrays, count = self.arrays, batch.generating
        self.slots, self.positions = arrays.ints(batch.slots), arrays.ints(batch.positions)
        self.cos = self.cosines[self.positions][:, None]
        self.sin = self.sines[self.positions][:, None]
        self.generating = count
        if count:
            # A slice of the cache needs no copy, so slots that generate nothing take part, with
            # the query of row 0, and their results are left out.
            self.used = max(batch.slots[:count]) + 1
            self.reach = max(batch.positions[:count]) + 1
            row_of, length_of = [0] * self.used, [1] * self.used
            for row, (slot, position) in enumerate(zip(batch.slots[:count], batch.positions)):
                row_of[slot], length_of[slot] = row, position + 1
            self.row_of = arrays.ints(row_of)
            lengths = arrays.ints(length_of)[:, None, None, None]
            self.written = self.order[: self.reach] < lengths
        self.chunks = [(chunk, self.visible(chunk)) for chunk in batch.chunks]

    def visible(self, chunk):
        """Which positions each token of a chunk may look at."""
        end = chunk.begin + chunk.length
        return (self.order[:end] <= self.order[chunk.begin : end, None])[:, None]

    def rotate(self, x):
        half = self.shape.head_width // 2
        first, second = x[..., :half], x[..., half:]
        turned = (first * self.cos - second * self.sin, second * self.cos + first * self.sin)
        return self.arrays.library.concatenate(turned, -1)

    def attend_slots(self, queries, stored):
        """Attention of one token of each generating sequence."""
        keys, values = (array[: self.used, :, : self.reach] for array in stored)
        scores = queries[self.row_of] @ keys.swapaxes(-1, -2) * self.scale
        mixed = self.arrays.attention_weights(scores, self.written) @ values
        return mixed[self.slots[: self.generating]].reshape(self.generating, -1)

    def attend_chunk(self, queries, stored, chunk):
        """Attention of a chunk of a prompt to itself and to what its slot holds."""
        chunk, visible = chunk
        end = chunk.begin + chunk.length
        keys, values = (array[chunk.slot, :, :end] for array in stored)
        rows = queries[chunk.row : chunk.row + chunk.length].swapaxes(0, 1)
        kv_heads, length, group, width = rows.shape
        scores = rows.reshape(kv_heads, -1, width) @ keys.swapaxes(-1, -2) * self.scale
        scores = scores.reshape(kv_heads, length, group, end)
        weights = self.arrays.attention_weights(scores, visible)
        mixed = weights.reshape(kv_heads, -1, end) @ values
        return mixed.reshape(kv_heads, length, group, width).swapaxes(0, 1).reshape(length, -1)

"""Continuous batching: which tokens of which sequences the next forward pass takes.

As in vLLM, a pass has a budget of tokens. Every sequence that generates takes one, then prompts are
read in chunks in the order of arrival, and a waiting sequence is admitted while a place is free. A
sequence keeps its place, a slot of the cache, until it ends; so none is ever preempted.
"""

import threading
from collections import deque

from transformer import Chunk, Pass


class Sequence:
    def __init__(self, prompt, count, deliver):
        self.prompt, self.count, self.deliver = prompt, count, deliver
        self.slot = None
        self.read = 0
        self.tokens = []
        self.left = False


class Batcher:
    """The line, the places and the counters. `step` belongs to one thread, the rest to any."""

    def __init__(self, model, places, length, budget):
        self.model, self.places, self.length, self.budget = model, places, length, budget
        self.cache = model.cache(places, length)
        self.changed = threading.Condition()
        self.waiting, self.running = deque(), []
        self.free = list(range(places))
        self.in_flight_max = 0
        self.prompt_tokens, self.tokens, self.completed, self.steps = 0, 0, 0, 0

    def submit(self, sequence):
        with self.changed:
            self.waiting.append(sequence)
            in_flight = len(self.waiting) + len(self.running)
            self.in_flight_max = max(self.in_flight_max, in_flight)
            self.changed.notify()

    def leave(self, sequence):
        """The client is gone: a waiting sequence leaves at once, a running one after its step."""
        with self.changed:
            sequence.left = True
            if sequence in self.waiting:
                self.waiting.remove(sequence)

    def counters(self):
        with self.changed:
            held = sum(self.held(sequence) for sequence in self.running)
            return {
                "running": len(self.running),
                "waiting": len(self.waiting),
                "kv_used": held / (self.places * self.length),
                "in_flight_max": self.in_flight_max,
                "prompt_tokens": self.prompt_tokens,
                "tokens": self.tokens,
                "completed": self.completed,
                "steps": self.steps,
            }

    @staticmethod
    def held(sequence):
        return sequence.read + max(len(sequence.tokens) - 1, 0)

    def reset_peak(self):
        with self.changed:
            self.in_flight_max = len(self.waiting) + len(self.running)

    def await_work(self, seconds):
        with self.changed:
            busy = self.changed.wait_for(lambda: self.waiting or self.running, seconds)
            return bool(busy)

    def step(self):
        """One forward pass. Returns each sequence that got a token, and whether it has ended."""
        with self.changed:
            batch, takers = self.plan()
        found = self.model.next_tokens(batch, self.cache)
        with self.changed:
            return self.settle(takers, found)

    def plan(self):
        budget = self.budget
        generating = [sequence for sequence in self.running if sequence.tokens]
        batch = Pass([], [], [], len(generating), [], [])
        for row, sequence in enumerate(generating):
            batch.tokens.append(sequence.tokens[-1])
            batch.positions.append(self.held(sequence))
            batch.slots.append(sequence.slot)
            batch.ends.append(row)
        budget -= len(generating)
        takers = list(generating)
        for sequence in [sequence for sequence in self.running if not sequence.tokens]:
            budget -= self.take_chunk(batch, takers, sequence, budget)
        while self.waiting and self.free and budget > 0:
            sequence = self.waiting.popleft()
            # The lowest free slot keeps the used part of the cache short.
            sequence.slot = min(self.free)
            self.free.remove(sequence.slot)
            self.running.append(sequence)
            budget -= self.take_chunk(batch, takers, sequence, budget)
        return batch, takers

    def take_chunk(self, batch, takers, sequence, budget):
        length = min(len(sequence.prompt) - sequence.read, budget)
        if length <= 0:
            return 0
        begin, end = sequence.read, sequence.read + length
        batch.chunks.append(Chunk(len(batch.tokens), sequence.slot, begin, length))
        batch.tokens += sequence.prompt[begin:end]
        batch.positions += range(begin, end)
        batch.slots += [sequence.slot] * length
        sequence.read = end
        self.prompt_tokens += length
        if end == len(sequence.prompt):
            batch.ends.append(len(batch.tokens) - 1)
            takers.append(sequence)
        return length

    def settle(self, takers, found):
        self.steps += 1
        self.tokens += len(found)
        for sequence, token in zip(takers, found):
            sequence.tokens.append(token)
        kept = []
        for sequence in self.running:
            ended = len(sequence.tokens) >= sequence.count
            if ended or sequence.left:
                self.free.append(sequence.slot)
                self.completed += ended
            else:
                kept.append(sequence)
        self.running = kept
        return [(sequence, len(sequence.tokens) >= sequence.count) for sequence in takers]

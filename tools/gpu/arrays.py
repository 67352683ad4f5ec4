"""The array operations of the transformer that numpy and torch spell differently.

numpy runs the toy model on a processor, so that the tests need no large package. torch runs the
same model code on a GPU.
"""

import numpy


class NumpyArrays:
    """Arrays on the processor in single precision."""

    def __init__(self):
        self.library, self.name = numpy, "a processor"

    def random(self, shape, scale, generator):
        return generator.standard_normal(shape, dtype=numpy.float32) * numpy.float32(scale)

    def generator(self, seed):
        return numpy.random.default_rng(seed)

    def zeros(self, shape):
        return numpy.zeros(shape, numpy.float32)

    def ones(self, shape):
        return numpy.ones(shape, numpy.float32)

    def ints(self, values):
        return numpy.array(values, numpy.int64)

    def floats(self, values):
        return numpy.array(values, numpy.float32)

    def host(self, array):
        return array.tolist()

    def rms_norm(self, x, weight):
        mean = numpy.mean(x * x, axis=-1, keepdims=True)
        return x / numpy.sqrt(mean + numpy.float32(1e-5)) * weight

    def silu(self, x):
        return x / (1 + numpy.exp(-x))

    def attention_weights(self, scores, allowed):
        """The softmax of the scores over the positions that are allowed."""
        scores = numpy.where(allowed, scores, numpy.float32(-1e30))
        scores = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
        return scores / scores.sum(axis=-1, keepdims=True)

    def largest(self, logits):
        return logits.argmax(-1)


class TorchArrays:
    """Arrays of torch: in half precision on a GPU, in single precision on a processor."""

    def __init__(self, device, precision):
        import torch

        torch.set_grad_enabled(False)
        self.library = torch
        self.device = torch.device(device)
        self.type = getattr(torch, precision)
        gpu = self.device.type == "cuda"
        self.name = torch.cuda.get_device_name(self.device) if gpu else "a processor"

    def random(self, shape, scale, generator):
        made = self.library.empty(shape, dtype=self.type, device=self.device)
        return made.normal_(0.0, scale, generator=generator)

    def generator(self, seed):
        return self.library.Generator(self.device).manual_seed(seed)

    def zeros(self, shape):
        return self.library.zeros(shape, dtype=self.type, device=self.device)

    def ones(self, shape):
        return self.library.ones(shape, dtype=self.type, device=self.device)

    def ints(self, values):
        return self.library.tensor(values, dtype=self.library.int64, device=self.device)

    def floats(self, values):
        return self.library.tensor(values, dtype=self.type, device=self.device)

    def host(self, array):
        return array.tolist()

    def rms_norm(self, x, weight):
        return self.library.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)

    def silu(self, x):
        return self.library.nn.functional.silu(x)

    def attention_weights(self, scores, allowed):
        """The softmax of the scores, in single precision, over the positions that are allowed."""
        scores = scores.float().masked_fill_(~allowed, -1e30)
        return self.library.softmax(scores, -1).to(self.type)

    def largest(self, logits):
        return logits.argmax(-1)


def arrays_of(device):
    """The arrays for `numpy`, for a device of torch, or for whichever is there (`auto`)."""
    if device == "auto":
        try:
            import torch

            device = "cuda" if torch.cuda.is_available() else "numpy"
        except ImportError:
            device = "numpy"
    if device == "numpy":
        return NumpyArrays()
    return TorchArrays(device, "bfloat16" if device.startswith("cuda") else "float32")

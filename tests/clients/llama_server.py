"""llama.cpp's own HTTP server, with the model and as many slots as it is told."""

import signal
import sys

import xllamacpp

model, slots = sys.argv[1], int(sys.argv[2])
settings = xllamacpp.CommonParams()
settings.model.path = model
settings.model_alias = {"tiny-random"}
settings.port = 0
settings.n_parallel = slots
settings.n_ctx = 1024 * slots
settings.warmup = False
settings.endpoint_metrics = True
settings.endpoint_slots = True
settings.cpuparams.n_threads = 1
settings.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
signal.pause()

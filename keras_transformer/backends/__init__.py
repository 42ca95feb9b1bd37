"""The operations that differ between Keras' three backends, behind one contract.

`tensorflow.py`, `jax.py` and `torch.py` each define the names below; the one that
Keras runs on is loaded here, and no other module names a framework.

* `name`: of the backend.
* `compile(function, model, few_rows=False)`: a callable of the same arguments (nested
  tensors first, hashable options as keywords) that runs `function` as one compiled
  program a combination of shapes and options, without gradients. The model's weights
  may change between calls. `few_rows` says that large matrices meet few rows, which
  affects speed alone. Any number of threads may call it at once.
* `note_work(builds=False)`: called before a model is built (`builds`) or run. Raises a
  RuntimeError in the fork of a process whose work has started threads.
* `concrete(tensor)`: its values as a NumPy array, where they are known and in the
  processor's memory; None while a program is traced.
* `loop(condition, body, state, constants)`: `while condition(state): state =
  body(state, constants)`, one loop of the compiled program; shapes and dtypes of the
  state stay the same.
* `scan(step, carry, chunks)`: `carry, output = step(carry, chunk)` along the first
  axis; returns the last carry and the stacked outputs. Each step's temporaries are
  freed before the next.
* `update_cache(cache, update, position)`: `cache` (..., L * n, K) with `update`
  (..., n, K) written as its n entries from `position` * n on.
* `to_numpy(variable)`: a copy of its whole value, also where devices share it.
* `top_k(scores, k)`: the k largest along the last axis with their indices, descending,
  exact ties of finite scores in order of the index, the cut included.
* `sum_over_replicas(values)`: nested tensors, each summed over the replicas of the
  current step, be they devices or processes.
* `num_programs()`: how many of what `compile` gives are best run at once, in threads.
* `num_separate_losses()`: over how many processes the loss of a step is split without
  Keras knowing of it; 1 where it knows, or where there is one process.
* `symbolic_build(default, model, iterator, data_batch)`: what Keras does with the first
  batch before it trains or evaluates.
* `feeding()`: the context in which Keras reads a `PyDataset` for `fit` and `evaluate`.
* `train_step(model, default, *arguments)`, of a `FusedTraining` model: Keras' own step
  `default` on each of `model.micro_batches` parts of the batch, one after the other,
  and one update with the mean of their gradients, summed over replicas (over separate
  processes: their mean), which `model.note_gradients` is given first. Clipping sees
  that sum.
* `test_step(model, default, *arguments)`: Keras' own step. Both give the logs of all
  replicas together.
* `distributions`: `{kind: function}` of the set-ups of several devices; the function
  takes `devices`, "all" or a number, and gives a context manager of a `Distribution`.
* `peak_memory(function)`: the most bytes that this process holds on its device while it
  runs `function()`. `memory_limit()`: the most that it could.
* `random_bytes(like, seed_generator)`: uint8 of the shape of a tensor, uniform: by the
  hash of `random_words.py` from the next seed of a Keras `SeedGenerator`. A replica
  draws those of its own rows.
* `zero_where_below(values, bytes, least)`: the values, and 0 where the uint8 of the
  same shape is below `least`, which is above 0. The gradient keeps one byte an element.
* `exp_of_difference(a, b)`: exp(a - b) of large tensors that broadcast, inside a loss
  that has gradients of its own.
* `random_state()`, `restore_random_state(state)`: what Keras' layers draw from beside
  its seed generators, as a uint8 array; empty, of which nothing is restored, where
  there is no such thing. What is no such array raises a RuntimeError.
* `chunk_tokens`: how many tokens that loss best takes at once.
* `compiles_training`: whether Keras' `fit` can have its steps compiled by XLA.
* `hoists_invariants`: whether what `compile` gives does once, before a loop, what is
  the same in all its steps.
* `use_cudnn`: that argument of Keras' recurrent layers, such that they run in what
  `compile` gives.
"""

import importlib

import keras

name = keras.backend.backend()
_backend = importlib.import_module(f"{__name__}.{name}")

chunk_tokens = _backend.chunk_tokens
compile = _backend.compile
compiles_training = _backend.compiles_training
concrete = _backend.concrete
distributions = _backend.distributions
exp_of_difference = _backend.exp_of_difference
feeding = _backend.feeding
hoists_invariants = _backend.hoists_invariants
loop = _backend.loop
memory_limit = _backend.memory_limit
note_work = _backend.note_work
num_programs = _backend.num_programs
num_separate_losses = _backend.num_separate_losses
peak_memory = _backend.peak_memory
random_bytes = _backend.random_bytes
random_state = _backend.random_state
restore_random_state = _backend.restore_random_state
scan = _backend.scan
sum_over_replicas = _backend.sum_over_replicas
symbolic_build = _backend.symbolic_build
test_step = _backend.test_step
to_numpy = _backend.to_numpy
top_k = _backend.top_k
train_step = _backend.train_step
update_cache = _backend.update_cache
use_cudnn = _backend.use_cudnn
zero_where_below = _backend.zero_where_below

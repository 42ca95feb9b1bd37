"""Backend contract: the operations that differ between Keras' three backends.

`tensorflow.py`, `jax.py` and `torch.py` each define the names below. The active one is
loaded here, and no other module names a framework.

* `name`: the name of the backend.
* `compile(function, model, few_rows=False)`: a callable of the same arguments (nested
  tensors first, hashable options as keywords) that runs `function` as one compiled
  program per combination of shapes and options, without gradients. The model's weights
  may change between calls. `few_rows` says that large matrices meet few rows, which
  affects only speed. Any number of threads may call it at once.
* `compiles_few_rows`: whether that makes another program.
* `compiles_loops`: whether each `loop` of a program takes time to compile.
* `expecting(steps)`: a context in which the loops of a program make so many steps in
  all, as far as is known; a backend that compiles a loop late then does it at once.
* `note_work(builds=False)`: called before a model is built (`builds`) or run. Raises a
  RuntimeError in the fork of a process whose work has started threads.
* `concrete(tensor)`: its values as a NumPy array, if known and in host memory; None
  while a program is traced.
* `loop(condition, body, state, constants)`: `while condition(state): state =
  body(state, constants)`, one loop of the compiled program; shapes and dtypes of the
  state stay the same.
* `scan(step, carry, chunks)`: `carry, output = step(carry, chunk)` along the first
  axis; returns the last carry and the stacked outputs. Each step's temporaries are
  freed before the next.
* `product_with_transposed(rows, matrix)`: rows matrixᵀ, (..., D) and (V, D) ->
  (..., V).
* `update_cache(cache, update, position)`: `cache` (..., L * n, K) with `update`
  (..., n, K) written as its n entries from `position` * n on.
* `to_numpy(variable)`: a copy of its whole value, also where devices share it.
* `top_k(scores, k)`: the k largest along the last axis with their indices, descending,
  exact ties of finite scores in order of the index, the cut included.
* `has_attention_kernel(like, training)`: whether `kernel_attention` may compute
  attention between tensors of this dtype on this device; False where scores and
  softmax are faster.
* `kernel_attention(query, key, value, bias, causal, scale)`: softmax(scale * query keyᵀ
  + bias) value without an array of the scores, of (B, H, T, K), (B, G, S, K) and
  (B, G, S, K) of one dtype, where `has_attention_kernel`; None where the kernel does
  not take these sizes. `bias` is (B, 1, 1, S) of the same dtype and gets no gradient,
  or None; `causal` leaves out later keys, T = S.
* `sum_over_replicas(values)`: nested tensors, each summed over the replicas of the
  current step, be they devices or processes.
* `num_programs()`: how many compiled programs to run at once, in threads.
* `num_separate_losses()`: the number of processes that the loss of a step is split over
  without Keras knowing; 1 where Keras knows, or with one process.
* `symbolic_build(default, model, iterator, data_batch)`: Keras' build step with the
  first batch before training or evaluation.
* `feeding()`: the context in which Keras reads a `PyDataset` for `fit` and `evaluate`.
* `on_device(batch)`: nested arrays of a batch as tensors where the next step needs
  them; the same arrays where Keras itself sends them, or divides them over devices. Any
  thread may call it.
* `train_step(model, default, *arguments)`, for a `FusedTraining` model: Keras' step
  `default` on each of `model.micro_batches` parts of the batch in turn, and one update
  with the mean of their gradients, summed over replicas (averaged over separate
  processes), which is first passed to `model.note_gradients`. Clipping sees that sum.
* `test_step(model, default, *arguments)`: Keras' test step. Both return the logs of all
  replicas together.
* `distributions`: `{kind: function}` of the set-ups of several devices; the function
  takes `devices`, "all" or a number, and returns a context manager of a `Distribution`.
* `on_gpu()`: whether the backend's programs are for a GPU.
* `peak_memory(function)`: the peak bytes of this process on its device while it runs
  `function()`. `memory_limit()`: the available bytes.
* `random_bytes(like, seed_generator)`: uint8 of the shape of a tensor, uniform: by the
  hash of `random_words.py` from the next seed of a Keras `SeedGenerator`. A replica
  draws those of its rows.
* `zero_where_below(values, bytes, least)`: the values, and 0 where the uint8 of the
  same shape is below `least`, which is above 0. The gradient keeps one byte an element.
* `exp_of_difference(a, b)`: exp(a - b) of large tensors that broadcast, inside a loss
  with custom gradients.
* `recomputed(function, weights, states, inputs)`: `output, states = function(weights,
  states, inputs)`, lists of tensors, of which the backward pass keeps the arguments
  alone and computes the rest again. No gradient reaches the states.
* `random_state()`, `restore_random_state(state)`: the random state that Keras' layers
  use besides seed generators, as a uint8 array; empty where there is none. An invalid
  array raises a RuntimeError.
* `chunk_tokens()`: the best number of tokens per chunk of that loss, on this device.
* `product_multiple()`: of which number the sizes of large matrix products should be
  multiples, on this device.
* `traces_training`: whether `train_step` itself traces the steps of a model whose
  `traces_steps` says so, instead of Keras' `jit_compile`.
* `of_numpy(values)`: what to assign to a variable for an array of
  `host_memory.aligned_zeros` that nobody else will use, with as few copies as can be.
* `unwritten(shape, dtype)`: a tensor of any values, which are to be replaced, in memory
  that the system gives only when it is written.
* `hoists_invariants`: whether compiled programs compute loop invariants once, before
  the loop.
* `takes_one_buffer`: whether a training step takes the memory of all its temporaries as
  one buffer, whose size depends on the shapes.
* `untracked`: the attributes of a model that Keras sets anew at each training step with
  values of variables, among which there is nothing for Keras to find.
* `use_cudnn`: the `use_cudnn` argument of Keras' recurrent layers with which they run
  in compiled programs.
"""

import importlib

import keras

name = keras.backend.backend()
_backend = importlib.import_module(f"{__name__}.{name}")

chunk_tokens = _backend.chunk_tokens
compile = _backend.compile
compiles_few_rows = _backend.compiles_few_rows
compiles_loops = _backend.compiles_loops
concrete = _backend.concrete
distributions = _backend.distributions
exp_of_difference = _backend.exp_of_difference
expecting = _backend.expecting
feeding = _backend.feeding
has_attention_kernel = _backend.has_attention_kernel
hoists_invariants = _backend.hoists_invariants
kernel_attention = _backend.kernel_attention
loop = _backend.loop
memory_limit = _backend.memory_limit
note_work = _backend.note_work
num_programs = _backend.num_programs
num_separate_losses = _backend.num_separate_losses
of_numpy = _backend.of_numpy
on_device = _backend.on_device
on_gpu = _backend.on_gpu
peak_memory = _backend.peak_memory
product_multiple = _backend.product_multiple
product_with_transposed = _backend.product_with_transposed
random_bytes = _backend.random_bytes
random_state = _backend.random_state
recomputed = _backend.recomputed
restore_random_state = _backend.restore_random_state
scan = _backend.scan
sum_over_replicas = _backend.sum_over_replicas
symbolic_build = _backend.symbolic_build
takes_one_buffer = _backend.takes_one_buffer
test_step = _backend.test_step
to_numpy = _backend.to_numpy
top_k = _backend.top_k
traces_training = _backend.traces_training
train_step = _backend.train_step
untracked = _backend.untracked
unwritten = _backend.unwritten
update_cache = _backend.update_cache
use_cudnn = _backend.use_cudnn
zero_where_below = _backend.zero_where_below

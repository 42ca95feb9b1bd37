"""What Keras does not say the same way on its three backends, behind one contract.

`tensorflow.py`, `jax.py` and `torch.py` each define the names below; the one that
Keras runs on is loaded here, and no other module names a framework.

* `name`: of the backend.
* `compile(function, model)`: a callable of the same arguments (nested tensors first,
  hashable options as keywords) that runs `function` as one compiled program a
  combination of shapes and options, without gradients. The model's weights may change
  between calls.
* `concrete(tensor)`: its values as a NumPy array, where they are known and in the
  processor's memory; None while a program is traced.
* `loop(condition, body, state, constants)`: `while condition(state): state =
  body(state, constants)`, one loop of the compiled program; shapes and dtypes of the
  state stay the same.
* `scan(step, carry, chunks)`: `carry, output = step(carry, chunk)` along the first
  axis; returns the last carry and the stacked outputs. Each step's temporaries are
  freed before the next.
* `update_cache(cache, update, position)`: `cache` (..., L, K) with `update`
  (..., 1, K) written at `position`.
* `top_k(scores, k)`: the k largest along the last axis with their indices, descending,
  exact ties of finite scores in order of the index, the cut included.
* `sum_over_replicas(value)`: the sum over the replicas of the current step.
* `train_step(model, default, *arguments)`: Keras' own step, or what a set-up of
  several processes needs instead.
* `random_state()`, `restore_random_state(state)`: what dropout draws from beside Keras'
  seed generators, as a uint8 array.
"""

import importlib

import keras

name = keras.backend.backend()
_backend = importlib.import_module(f"{__name__}.{name}")

compile = _backend.compile
concrete = _backend.concrete
loop = _backend.loop
random_state = _backend.random_state
restore_random_state = _backend.restore_random_state
scan = _backend.scan
sum_over_replicas = _backend.sum_over_replicas
top_k = _backend.top_k
train_step = _backend.train_step
update_cache = _backend.update_cache

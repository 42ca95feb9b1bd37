"""How fast the device multiplies large bfloat16 matrices: what no model can pass.

python -m peers.matrix_rate SIZE, in the folder of benchmarks
"""

import importlib.util
import sys
import time

from turns import serve

REPEATS = 50  # of a round; a product of 8192 takes about 1.5 ms on an H200


def products(size):
    """`run(count)`: so many products, one after the other, and waits for the last."""
    if importlib.util.find_spec("torch"):
        import torch

        from peers.device import torch_device

        options = {"dtype": torch.bfloat16, "device": torch_device()}
        a, b = (torch.randn((size, size), **options) for _ in range(2))
        out = torch.empty_like(a)

        def run(count):
            for _ in range(count):
                torch.matmul(a, b, out=out)
            out[0, 0].item()

        return run

    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(1))
    a, b = (jax.random.normal(key, (size, size), jnp.bfloat16) for key in keys)
    multiply = jax.jit(jnp.matmul)

    def run(count):
        for _ in range(count):
            out = multiply(a, b)
        out.block_until_ready()

    return run


def main():
    size = int(sys.argv[1])
    run = products(size)
    run(3)

    def work(_):
        start = time.perf_counter()
        run(REPEATS)
        seconds = time.perf_counter() - start
        return {"flops_per_second": REPEATS * 2 * size**3 / seconds}

    serve(work)


if __name__ == "__main__":
    main()

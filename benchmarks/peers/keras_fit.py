"""Plain `model.fit` on batches that come again and again."""

import keras


class Repeated(keras.utils.PyDataset):
    def __init__(self, rows, steps):
        super().__init__(workers=0)
        self.rows, self.steps = rows, steps

    def __len__(self):
        return self.steps

    def __getitem__(self, index):
        return self.rows[index % len(self.rows)]


def fit(model, loss, rows, jit_compile=None):
    """`train(steps)` of a model, on (x, y, weights); without a word JAX compiles."""
    if jit_compile is None:
        jit_compile = keras.backend.backend() == "jax"
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3, beta_2=0.98, epsilon=1e-9),
        loss=loss,
        jit_compile=jit_compile,
    )

    def train(steps):
        data = Repeated(rows, steps)
        history = model.fit(data, epochs=1, verbose=0, shuffle=False)
        return history.history["loss"][-1]

    return train

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


def fit(model, rows):
    """`train(steps)` of a compiled model, on (x, y, weights)."""

    def train(steps):
        data = Repeated(rows, steps)
        history = model.fit(data, epochs=1, verbose=0, shuffle=False)
        return history.history["loss"][-1]

    return train

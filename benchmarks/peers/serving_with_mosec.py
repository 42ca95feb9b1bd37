"""The same translations behind mosec, for `serving_load.py`.

    python -m peers.serving_with_mosec MODEL PORT

See `serving_with_litserve.py`.
"""

import os
import sys

import mosec

from keras_transformer.translator import Translator
from peers.serving import HOST
from peers.serving import MILLISECONDS
from peers.serving import MOST
from peers.serving import translated


class Translations(mosec.Worker):
    """In a process of its own, which has the arguments in its environment."""

    def __init__(self):
        super().__init__()
        self.translator = Translator.load(os.environ["MODEL"])

    def forward(self, requests):
        found = translated(self.translator, [request["texts"] for request in requests])
        return [{"translations": texts} for texts in found]


if __name__ == "__main__":
    model, port = sys.argv[1:]
    os.environ["MODEL"] = model
    options = {"address": HOST, "port": port, "timeout": "120000"}  # milliseconds
    sys.argv[1:] = [f"--{name}={value}" for name, value in options.items()]
    server = mosec.Server()
    runtime = mosec.Runtime(
        Translations, max_batch_size=MOST, max_wait_time=MILLISECONDS, timeout=120
    )
    server.register_runtime({"/translate": [runtime]})
    server.run()

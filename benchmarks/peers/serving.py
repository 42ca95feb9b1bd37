"""The same translations behind the servers of other libraries, for `serving_load.py`.

    python -m peers.serving litserve|mosec MODEL PORT

`POST /translate` takes `{"texts": [...]}`, as `keras-transformer serve` does. Requests
that wait are translated together, up to 64.
"""

import itertools
import os
import sys

from keras_transformer.translator import Translator

HOST = "127.0.0.1"
MOST, MILLISECONDS = 64, 5  # requests of a batch, and how long the first one waits


def translated(translator, requests):
    """The translations of each request's texts, all texts in one call."""
    found = iter(translator.translate(list(itertools.chain(*requests))))
    return [[next(found) for _ in texts] for texts in requests]


def litserve(model, port):
    import litserve as library

    class Translations(library.LitAPI):
        def setup(self, device):
            self.translator = Translator.load(model)

        def decode_request(self, request):
            return request["texts"]

        def batch(self, inputs):
            return inputs

        def predict(self, requests):
            return translated(self.translator, requests)

        def unbatch(self, output):
            return output

        def encode_response(self, output):
            return {"translations": output}

    api = Translations(
        max_batch_size=MOST, batch_timeout=MILLISECONDS / 1000, api_path="/translate"
    )
    server = library.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(host=HOST, port=port, generate_client_file=False, log_level="error")


class Mosec:
    """Mosec starts processes that find its worker by name."""

    def __init__(self):
        self.translator = Translator.load(os.environ["PEER_MODEL"])


def mosec(model, port):
    import mosec as library

    os.environ["PEER_MODEL"] = model
    sys.argv = [sys.argv[0], "--address", HOST, "--port", str(port)]

    class Translations(Mosec, library.Worker):
        def __init__(self):
            library.Worker.__init__(self)
            Mosec.__init__(self)

        def forward(self, requests):
            texts = [request["texts"] for request in requests]
            found = translated(self.translator, texts)
            return [{"translations": each} for each in found]

    server = library.Server()
    runtime = library.Runtime(
        Translations, max_batch_size=MOST, max_wait_time=MILLISECONDS, timeout=120
    )
    server.register_runtime({"/translate": [runtime]})
    server.run()


if __name__ == "__main__":
    {"litserve": litserve, "mosec": mosec}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))

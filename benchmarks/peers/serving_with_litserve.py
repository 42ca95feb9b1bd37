"""The same translations behind LitServe, for `serving_load.py`.

    python -m peers.serving_with_litserve MODEL PORT

`POST /translate` takes `{"texts": [...]}`, as `keras-transformer serve` does. Requests
that wait are translated together.
"""

import sys

import litserve

from keras_transformer.translator import Translator
from peers.serving import HOST
from peers.serving import MILLISECONDS
from peers.serving import MOST
from peers.serving import translated


class Translations(litserve.LitAPI):
    def setup(self, device):
        self.translator = Translator.load(sys.argv[1])

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


if __name__ == "__main__":
    api = Translations(
        max_batch_size=MOST, batch_timeout=MILLISECONDS / 1000, api_path="/translate"
    )
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(
        host=HOST,
        port=int(sys.argv[2]),
        generate_client_file=False,
        log_level="error",
    )

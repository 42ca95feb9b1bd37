"""The same translations behind Ray Serve, for `serving_load.py`.

    python -m peers.serving_with_ray MODEL PORT

See `serving_with_litserve.py`.
"""

import asyncio
import os
import signal
import sys

import ray
from ray import serve

from keras_transformer.translator import Translator
from peers.serving import HOST
from peers.serving import MILLISECONDS
from peers.serving import MOST
from peers.serving import translated


@serve.deployment(max_ongoing_requests=2 * MOST)
class Translations:
    """In a process of its own."""

    def __init__(self, model):
        self.translator = Translator.load(model)

    async def __call__(self, request):
        texts = (await request.json())["texts"]
        return {"translations": await self.translate(texts)}

    @serve.batch(max_batch_size=MOST, batch_wait_timeout_s=MILLISECONDS / 1000)
    async def translate(self, requests):
        # Beside the event loop, which collects the next batch meanwhile.
        return await asyncio.to_thread(translated, self.translator, requests)


if __name__ == "__main__":
    model, port = sys.argv[1:]
    ray.init(
        include_dashboard=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
    )
    serve.start(http_options={"host": HOST, "port": int(port)})
    serve.run(Translations.bind(model), route_prefix="/translate")
    signal.pause()

"""HTTP interface of the server: its routes."""

import functools
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from keras_transformer import __version__
from keras_transformer.errors import InputError
from keras_transformer.errors import ModelError
from keras_transformer.serving import exchange
from keras_transformer.serving import guard
from keras_transformer.serving import inference_protocol
from keras_transformer.serving import libretranslate
from keras_transformer.serving import messages
from keras_transformer.serving import openapi
from keras_transformer.serving import page
from keras_transformer.serving import predict
from keras_transformer.serving.batching import QueueFull
from keras_transformer.serving.batching import Stopping
from keras_transformer.serving.exchange import Refusal
from keras_transformer.serving.service import DEFAULT_NAME
from keras_transformer.serving.service import VERSION
from keras_transformer.serving.service import Service
from keras_transformer.translation.hypothesis import Hypothesis
from keras_transformer.translation.hypothesis import empty

#: Largest number of attention weights in one answer: 2 MB of JSON, which delay all
#: other requests by 0.2 s.
_MOST_WEIGHTS = 2**18

Parse = Callable[[bytes], messages.Work]


def application(
    service: Service,
    api_key: str | None = None,
    *,
    local: bool = False,
    crowded: Callable[[], bool] = lambda: False,
    log: Callable[[str], None] | None = None,
) -> guard.Guard:
    """An ASGI application; any ASGI server runs it.

    Args:
        service: the model and its queue; the caller starts and stops it.
        api_key: the key that clients must send, except for the page and the health
            checks.
        local: see `guard.Guard`.
        crowded: see `guard.Guard`.
        log: see `guard.Guard`.
    """
    routes = _Routes(service, api_key)
    model = "/v1/models/{name}"
    versions = f"{model}/versions/{{version}}"
    model_2 = "/v2/models/{name}"
    versions_2 = f"{model_2}/versions/{{version}}"
    handlers: dict[Any, Any] = {
        HTTPException: exchange.refused,
        InputError: exchange.bad_input,
        ModelError: exchange.broken_model,
        ClientDisconnect: exchange.gone,
        Exception: exchange.fault,
    }
    app = Starlette(
        routes=[
            Route("/translate", routes.translate, methods=["POST"]),
            Route("/languages", routes.languages),
            Route(f"{model}:predict", routes.predict, methods=["POST"]),
            Route(f"{versions}:predict", routes.predict, methods=["POST"]),
            Route(f"{model}/metadata", routes.metadata),
            Route(f"{versions}/metadata", routes.metadata),
            Route(model, routes.status),
            Route(versions, routes.status),
            Route("/v2", routes.server_2),
            Route("/v2/health/live", routes.live_2),
            Route("/v2/health/ready", routes.ready_2),
            Route(model_2, routes.metadata_2),
            Route(versions_2, routes.metadata_2),
            Route(f"{model_2}/ready", routes.model_ready_2),
            Route(f"{versions_2}/ready", routes.model_ready_2),
            Route(f"{model_2}/infer", routes.infer, methods=["POST"]),
            Route(f"{versions_2}/infer", routes.infer, methods=["POST"]),
            Route("/health", routes.health),
            Route("/ready", routes.ready),
            Route("/info", routes.info),
            Route("/metrics", routes.metrics),
            Route(openapi.PATH, routes.openapi),
            *(Route(path, routes.page) for path in page.FILES),
        ],
        exception_handlers=handlers,
    )
    app.router.redirect_slashes = False
    return guard.Guard(
        app,
        service.metrics,
        local=local,
        keyless=api_key is None,
        crowded=crowded,
        log=log,
    )


class _Routes:
    def __init__(self, service: Service, api_key: str | None) -> None:
        self._service = service
        self._api_key = api_key

    # === Translation ===

    async def translate(self, request: Request) -> Response:
        is_keyed = self._api_key is None or guard.sent_key(request.headers) is not None
        if is_keyed:
            self._check_key(request)
        kind = request.headers.get("content-type", "")
        parse = functools.partial(self._parse_translate, kind, is_keyed)
        return await self._answer(request, parse)

    def _parse_translate(self, kind: str, is_keyed: bool, body: bytes) -> messages.Work:
        """The request of a body; a client of LibreTranslate has its key in there."""
        service = self._service
        value: Any = None
        try:
            if libretranslate.is_form(kind, body):
                value = libretranslate.parse_form(body, service.limits)
            else:
                value = messages.parse_json(body, service.limits)
        finally:
            if not is_keyed:
                guard.check_key(libretranslate.sent_key(value), str(self._api_key))
        parse: Callable[..., messages.Work] = messages.parse_translate
        if isinstance(value, dict) and "q" in value:
            parse = libretranslate.parse_libretranslate
        return parse(value, service.engine, service.limits, service.source_language)

    async def predict(self, request: Request) -> Response:
        self._check_key(request)
        self._check_model(request)
        return await self._answer(request, self._parse_predict)

    def _parse_predict(self, body: bytes) -> messages.Work:
        service = self._service
        value = messages.parse_json(body, service.limits)
        return predict.parse_predict(value, service.engine, service.limits)

    async def infer(self, request: Request) -> Response:
        self._check_key(request)
        self._check_model(request)
        service = self._service
        parse = functools.partial(
            inference_protocol.parse_infer,
            json_length=request.headers.get(inference_protocol.JSON_LENGTH),
            engine=service.engine,
            limits=service.limits,
            model=(service.name, str(VERSION)),
        )
        return await self._answer(request, parse)

    async def _answer(self, request: Request, parse: Parse) -> Response:
        service = self._service
        self._check_thread()
        if not service.ready:
            raise Refusal(
                503,
                "the model is being prepared; try again later",
                exchange.retry_after(5),
            )
        body = await exchange.read_body(request, service.limits)
        # Other requests are answered meanwhile.
        work = await run_in_threadpool(parse, body)
        codes = service.check_languages(*work.languages)
        work = work._replace(languages=codes)
        rows = await self._hypotheses(request, work)
        return await run_in_threadpool(lambda: exchange.as_response(work.answer(rows)))

    def _measured(self, work: messages.Work) -> tuple[list[int], list[int]]:
        """Which texts are not empty, and their numbers of tokens."""
        engine, texts = self._service.engine, work.texts
        codes = [work.languages] if engine.languages else []
        filled = [i for i, text in enumerate(texts) if not engine.is_empty(text)]
        try:
            # Over all texts, so that messages count lines as the client does.
            return filled, engine.count_tokens(texts, *codes) if filled else []
        except InputError as error:
            if work.paragraphs is None:
                raise
            raise work.paragraphs.renumbered(error) from None

    async def _hypotheses(
        self, request: Request, work: messages.Work
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each text; an empty one has an empty translation."""
        answers = [[empty()] for _ in work.texts]
        filled, lengths = await run_in_threadpool(self._measured, work)
        if not filled:
            return answers
        texts = [work.texts[i] for i in filled]
        counts = [lengths[i] for i in filled]
        weights = sum(count * count for count in counts) * work.options.n_best
        if work.options.attention and weights > _MOST_WEIGHTS:
            raise InputError(
                "alignments and attention of this much text are too large for one "
                "answer; send fewer or shorter sentences"
            )
        try:
            futures = self._service.batcher.submit(
                texts,
                counts,
                work.options,
                request.client and request.client.host,
                work.languages,
            )
            seconds = self._service.limits.answer_seconds
            results = await exchange.results(request, futures, seconds)
        except QueueFull:
            raise Refusal(
                429,
                "too many sentences are waiting; try again later",
                exchange.retry_after(1),
            ) from None
        except Stopping:
            raise Refusal(503, "the server is shutting down", exchange.CLOSE) from None
        for row, hypotheses in zip(filled, results, strict=True):
            answers[row] = hypotheses
        return answers

    # === Questions about the server ===

    async def status(self, request: Request) -> Response:
        self._check_model(request)
        status = {
            "version": str(VERSION),
            "state": "AVAILABLE" if self._service.ready else "LOADING",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return exchange.as_json({"model_version_status": [status]})

    async def metadata(self, request: Request) -> Response:
        self._check_key(request)
        self._check_model(request)
        name, version = self._service.name, str(VERSION)
        spec = {"name": name, "signature_name": "", "version": version}
        signatures = predict.signature_definitions(self._service.engine.beam_size)
        metadata = {"signature_def": {"signature_def": signatures}}
        return exchange.as_json({"model_spec": spec, "metadata": metadata})

    async def languages(self, request: Request) -> Response:
        languages = await run_in_threadpool(lambda: self._service.directions)
        if not languages:
            raise Refusal(
                404,
                "this model does not know its languages; start the server with "
                "--languages, such as en-de",
            )
        return exchange.as_json(languages)

    async def info(self, request: Request) -> Response:
        self._check_key(request)
        return exchange.as_json(self._service.info())

    async def metrics(self, request: Request) -> Response:
        self._check_key(request)
        text = self._service.metrics.text()
        return Response(text, media_type="text/plain; version=0.0.4")

    async def health(self, request: Request) -> Response:
        self._check_thread()
        return exchange.as_json({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        self._check_ready()
        return exchange.as_json({"status": "ready"})

    # === The same, in the Open Inference Protocol ===

    async def server_2(self, request: Request) -> Response:
        return exchange.as_json(inference_protocol.server_metadata(__version__))

    async def live_2(self, request: Request) -> Response:
        self._check_thread()
        return exchange.as_json({"live": True})

    async def ready_2(self, request: Request) -> Response:
        self._check_ready()
        return exchange.as_json({"ready": True})

    async def model_ready_2(self, request: Request) -> Response:
        self._check_model(request)
        self._check_ready()
        return exchange.as_json({"name": self._service.name, "ready": True})

    async def metadata_2(self, request: Request) -> Response:
        self._check_key(request)
        self._check_model(request)
        name, version = self._service.name, str(VERSION)
        return exchange.as_json(inference_protocol.model_metadata(name, version))

    async def openapi(self, request: Request) -> Response:
        return exchange.as_json(openapi.document())

    async def page(self, request: Request) -> Response:
        content, media_type = page.read(request.url.path)
        return Response(content, media_type=media_type, headers=page.HEADERS)

    def _check_thread(self) -> None:
        if self._service.failed:
            raise Refusal(503, "the model has failed; restart the server")

    def _check_ready(self) -> None:
        self._check_thread()
        if not self._service.ready:
            raise Refusal(503, "the model is not ready", exchange.retry_after(5))

    def _check_key(self, request: Request) -> None:
        if self._api_key is not None:
            guard.check_key(guard.sent_key(request.headers), self._api_key)

    def _check_model(self, request: Request) -> None:
        path, name, version = request.path_params, self._service.name, str(VERSION)
        is_ours = path["name"] in (name, DEFAULT_NAME)
        if not is_ours or path.get("version", version) != version:
            raise Refusal(404, f"no such model; this server has {name}/{version}")

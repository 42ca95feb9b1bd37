"""The card of a SavedModel: what it is, and how to ask it."""

import json
from typing import Any

from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.export.description import n_best_options
from keras_transformer.export.program_card import only_languages
from keras_transformer.models.search import EXTRA_LENGTH

_TEXT = """{card}

# As a SavedModel

Version {version} was exported from the model above with {search}.{languages}
Text goes in and comes out: tokenizer, search and weights are in the graph. It needs
neither Keras nor the package that made it, but the operations of TensorFlow Text, which
TF Serving has. From the folder that holds `{name}`:

```
docker run --rm -p 8500:8500 -p 8501:8501 \\
    -v "$PWD/{name}:/models/{name}" -e MODEL_NAME={name} \\
    tensorflow/serving --enable_batching \\
    --batching_parameters_file=/models/{name}/{version}/batching_params.pbtxt
```

```
curl -d '{{"instances": [{quoted}]}}' \\
    localhost:8501/v1/models/{name}:predict{reply}
```

The same by gRPC, with the package `tensorflow-serving-api`:

```python
import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc

request = predict_pb2.PredictRequest()
request.model_spec.name = "{name}"
request.model_spec.signature_name = "serving_default"
line = {example}
request.inputs["text"].CopyFrom(tf.make_tensor_proto([line]))
with grpc.insecure_channel("localhost:8500") as channel:
    service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    answer = service.Predict(request, timeout=60)
print(answer.outputs["translation"].string_val[0].decode())
```

Signatures, each with its inputs and outputs:

* `serving_default`: `text` -> `translation`, `score`, `finished`, `truncated`
* `translate_greedy`: the same, by greedy search
* `translate_n_best`: `text` -> `translations`, `scores`, `log_probabilities`,
  `num_tokens`, `finished`, `truncated`: {n_best} hypotheses a line, best first
* `translate_ids`: `ids`, `lengths` -> `ids`, `num_tokens`, `score`, `finished`,
  `truncated`, `replaced`, for clients with a tokenizer of their own
* `encode`: `text` -> `memory`, `mask`, `truncated`
* `score`: `source`, `target` -> `log_probability`, `num_tokens`, `truncated`

The batch is the first axis of each. `finished` is false where a translation reached its
limit of {limit}; `truncated` is true where a line had more
tokens than the model takes ({longest}, its end included), and only its beginning was
translated. `replaced` is true where a special id, or one outside of the vocabulary, was
read as the unknown one. An empty line gives an empty translation. TF Serving refuses a
request of more lines than `max_batch_size` in `batching_params.pbtxt`.
"""


def saved_model_card(
    card: str,
    example: str | None,
    answer: dict[str, Any],
    options: DecodingOptions,
    languages: str = "",
    **facts: object,
) -> str:
    """The text of the README.md beside the versions of a SavedModel.

    Args:
        card: of the model; "" where there is none.
        example: a line to translate; None for a text that the reader fills in.
        answer: what the signature `serving_default` says of it.
        options: of the search.
        languages: source and target of a multilingual model, such as `en-de`.
        facts: `name`, `version` and `longest`, as the text says them.
    """
    reply = ""
    if example is not None:
        reply = f'\n{{"predictions": [{json.dumps(answer, ensure_ascii=False)}]}}'
    quoted = json.dumps(example or "YOUR TEXT", ensure_ascii=False)
    usual = {"beam_size": options.beam_size, "length_penalty": options.length_penalty}
    changed = usual | options.changed()
    if options.suppressed_tokens:
        changed["suppressed_tokens"] = "/".join(map(str, options.suppressed_tokens))
    words = [f"{name.replace('_', ' ')} {value}" for name, value in changed.items()]
    limit = f"{EXTRA_LENGTH} tokens more than its line"
    if options.max_length:
        limit = f"{options.max_length} tokens"
    return _TEXT.format(
        card=card.strip() or f"# {facts['name']}",
        example=quoted,
        quoted=quoted.replace("'", "\\u0027"),  # within a shell's single quotes
        reply=reply,
        search=f"{', '.join(words[:-1])} and {words[-1]}",
        n_best=n_best_options(options).top_beams,
        limit=limit,
        languages=only_languages(languages),
        **facts,
    )

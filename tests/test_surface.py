"""The names that people rely on: never renamed, never lost; new ones are added here."""

import importlib

import pytest
import typer

from keras_transformer.cli.main import application

pytestmark = pytest.mark.no_backend

NAMES = {
    "keras_transformer": """
        BatchTranslator CTranslate2Translator ConvolutionalConfig ConvolutionalModel
        RecurrentConfig RecurrentModel Transformer TransformerConfig Translator
        __version__ data decoding evaluation export importing layers load_translator
        losses models training visualization
    """,
    "keras_transformer.layers": """
        AttentionBias ConvolutionalGatedRecurrentUnit DecoderBlock EncoderBlock
        FeedForward GatedConvolution
        LearnedPositionalEmbedding MemoryHop MultiHeadAttention RelativeBuckets
        RelativePositionalEncoding Residual RotaryPositionalEncoding SSRU
        SentenceEmbedding SinusoidalPositionalEncoding TokenEmbedding
        additive_attention masks scaled_dot_product_attention sinusoidal_table
    """,
    "keras_transformer.data": """
        CorpusReport EncodedPairs KnownWords PackedBatches ParallelText SpanCorruption
        TokenBatches TokenRows
        Tokenizer encode_pairs phrasebook read_lines read_pairs read_parallel read_tsv
        stories
    """,
    "keras_transformer.decoding": """
        DecodingOptions SearchResult beam_search greedy_search length_penalty sample
    """,
    "keras_transformer.training": """
        AverageWeights Corpus DataSection EvaluationSection FilterSection GradientNorm
        InverseSquareRoot LabelSmoothedCrossEntropy LinearWarmup LoraSection
        NegativeLogLikelihood OptimizerSection Perplexity RunConfig TokenAccuracy
        TokenizerSection TrainingCorpus TrainingSection TranslationScores WorkerLost
        adam average load_config open_distribution paper_optimizer train
    """,
    "keras_transformer.losses": """
        LabelSmoothedCrossEntropy TokenStatistics default_weights token_losses
    """,
    "keras_transformer.evaluation": """
        Comparison METRICS Score TOKENIZATIONS compare evaluate
    """,
    "keras_transformer.models": """
        ConvolutionalModel Decodable Decoded Encoded Ensemble KINDS NeuralGPU
        ConvolutionalModel Decodable Decoded Encoded Ensemble KINDS MemoryNetwork
        RecurrentModel SearchState StepOutput Transformer register_position
        with_new_vocabulary
    """,
    "keras_transformer.visualization": """
        AttentionMaps HeadReport attention_maps draw_alignment draw_heads head_report
        html_page
    """,
    "keras_transformer.importing": "ImportReport convert inspect",
    "keras_transformer.export": "ctranslate2 litert onnx saved_model transformers",
}

#: Flags of the commands that search.
_SEARCH = """
    --beam-size --normalization --length-penalty --coverage-penalty --patience --rules
    --min-length --max-length --no-repeat-ngram-size --repetition-penalty
    --suppressed-tokens --forced-start --forced-end --num-beam-groups
    --diversity-penalty --sampling --temperature --top-k --top-p --seed --mbr
    --mbr-candidates --long-lines --max-source-length --source-language
    --target-language
"""
_SEARCH_OF_ONE_PAIR = _SEARCH.partition("--source-language")[0]
COMMANDS = {
    "train": "CONFIG.yaml --set --print-schema --keys --import KEY=VALUE",
    "translate": f"""
        MODEL [FILE] --input --output --format --batch-size --prefixes --attention
        --ensemble --split-sentences --rerank --mbr-metric --engine --import
        --top-beams {_SEARCH}
    """,
    "score": """
        MODEL --source --target --source-language --target-language --metric --format
        --ensemble --import
    """,
    "evaluate": f"""
        MODEL --source --reference --tokenize --lowercase --confidence
        --chrf-word-order --metric --json --robustness --output --engine --import
        {_SEARCH}
    """,
    "compare": """
        BASELINE HYPOTHESES --reference --tokenize --lowercase --confidence
        --chrf-word-order --json
    """,
    "average": "RUN --output --last --best --import",
    "distill": f"""
        TEACHER CONFIG.yaml --output --part --shard-lines --batch-size --ensemble
        --engine --import {_SEARCH_OF_ONE_PAIR}
    """,
    "backtranslate": f"""
        MODEL FILE... --output --part --shard-lines --batch-size --ensemble --engine
        --import {_SEARCH}
    """,
    "import": """
        SOURCE --output --dry-run --source-language --target-language
        --source-tokenizer --target-tokenizer
    """,
    "export": f"""
        MODEL --format --output --version --examples --quantization --web --assets
        --import --top-beams {_SEARCH}
    """,
    "attention": """
        MODEL --text --translation --output --kind --layer --head --source --target
        --source-language --target-language --import
    """,
    "info": "MODEL --import",
    "compile": f"MODEL --batch-size --longest --import --top-beams {_SEARCH}",
    "serve": """
        MODEL --host --port --name --languages --beam-size --length-penalty --batch-size
        --queue --max-body --max-sentences --max-characters --max-request-characters
        --timeout --warm-up --access-log --engine
        --source-language --target-language --import
    """,
}


def public_names(module):
    """`__all__`, or the functions and classes that the module defines."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    return {
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
        and not name.startswith("_")
    }


@pytest.mark.parametrize("name", NAMES)
def test_public_names(name):
    module = importlib.import_module(name)
    assert public_names(module) == set(NAMES[name].split())
    assert all(hasattr(module, public) for public in NAMES[name].split())


def test_commands_and_options():
    program = typer.main.get_command(application())
    found = {
        name: {
            parameter.metavar if parameter.param_type_name == "argument" else option
            for parameter in command.params
            for option in parameter.opts
        }
        for name, command in program.commands.items()
    }
    for options in found.values():
        options -= {"-h", "--help"}
    assert found == {name: set(text.split()) for name, text in COMMANDS.items()}
    own = {option for p in program.params for option in p.opts}
    assert own == {"--version", "--install-completion", "--show-completion"}

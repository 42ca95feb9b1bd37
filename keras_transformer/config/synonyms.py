"""Other words for the keys of a run config: those of other toolkits, and short ones."""

#: Word -> key, with its section.
SYNONYMS: dict[str, str] = {
    # === The model ===
    **dict.fromkeys(
        ("d_model", "hidden_size", "model_dim", "embed_dim", "emb_size", "dim_emb"),
        "model.hidden_dim",
    ),
    **dict.fromkeys(
        ("encoder_embed_dim", "embedding_dim", "embedding_size", "hidden", "width"),
        "model.hidden_dim",
    ),
    **dict.fromkeys(
        ("d_ff", "ff_size", "ffn_dim", "transformer_ff", "encoder_ffn_dim", "mlp_dim"),
        "model.intermediate_dim",
    ),
    **dict.fromkeys(
        ("encoder_ffn_embed_dim", "feed_forward_dim", "transformer_dim_ffn"),
        "model.intermediate_dim",
    ),
    **dict.fromkeys(
        ("heads", "n_heads", "nhead", "encoder_attention_heads", "transformer_heads"),
        "model.num_heads",
    ),
    **dict.fromkeys(
        ("layers", "num_layers", "n_layers", "depth", "enc_layers", "encoder_layers"),
        "model.num_encoder_layers",
    ),
    **dict.fromkeys(("dec_layers", "decoder_layers"), "model.num_decoder_layers"),
    **dict.fromkeys(("drop", "dropout_rate", "p_drop"), "model.dropout"),
    "dropout": "model.dropout",
    "preset": "model.preset",
    "hidden_dim": "model.hidden_dim",
    "pre_norm": "model.normalize_first",
    **dict.fromkeys(("architecture", "arch", "model_type"), "model.kind"),
    **dict.fromkeys(
        ("pretrained", "checkpoint", "load_model", "train_from", "from_pretrained"),
        "model.folder",
    ),
    **dict.fromkeys(
        ("share_embeddings", "share_all_embeddings", "tied_embeddings", "weight_tying"),
        "model.tie_embeddings",
    ),
    # === Tokenizer and data ===
    **dict.fromkeys(
        ("vocab_size", "vocab", "bpe_operations", "num_merges"),
        "tokenizer.vocabulary_size",
    ),
    "vocabulary_size": "tokenizer.vocabulary_size",
    **dict.fromkeys(
        ("batch_size", "max_tokens", "mini_batch_words", "batch", "tokens_per_batch"),
        "data.batch_tokens",
    ),
    **dict.fromkeys(
        ("train_data", "training_data", "train", "corpus", "corpora", "train_sets"),
        "data.train",
    ),
    **dict.fromkeys(
        ("valid", "dev", "val", "validation_data", "valid_data", "valid_sets"),
        "data.validation",
    ),
    **dict.fromkeys(
        ("src", "source", "source_file", "src_file"), "data.train[].source"
    ),
    **dict.fromkeys(
        ("tgt", "target", "trg", "target_file", "tgt_file"), "data.train[].target"
    ),
    **dict.fromkeys(
        ("max_len", "max_seq_len", "max_source_positions", "max_seq_length"),
        "data.max_length",
    ),
    **dict.fromkeys(("num_workers", "threads", "processes"), "data.workers"),
    # === Training ===
    **dict.fromkeys(
        ("lr", "learn_rate", "peak_lr", "max_lr"), "training.learning_rate"
    ),
    **dict.fromkeys(
        ("epochs", "num_epochs", "max_epochs", "max_epoch", "max_steps", "max_update"),
        "training.steps",
    ),
    **dict.fromkeys(
        ("train_steps", "updates", "num_steps", "iterations", "after"),
        "training.steps",
    ),
    **dict.fromkeys(
        ("warmup", "warmup_updates", "lr_warmup", "warmup_ratio"),
        "training.warmup_steps",
    ),
    **dict.fromkeys(
        ("accum_count", "update_freq", "accumulation", "optimizer_delay"),
        "training.micro_batches",
    ),
    **dict.fromkeys(
        ("gradient_accumulation", "accumulate_grad_batches", "batch_multiplier"),
        "training.micro_batches",
    ),
    "gradient_accumulation_steps": "training.micro_batches",
    **dict.fromkeys(
        ("lr_scheduler", "scheduler", "lr_schedule", "lr_scheduler_type"),
        "training.schedule",
    ),
    **dict.fromkeys(
        ("smoothing", "label_smoothing_factor"), "training.label_smoothing"
    ),
    **dict.fromkeys(
        ("max_grad_norm", "grad_clip", "clip", "clipnorm", "gradient_clipping"),
        "training.clip_norm",
    ),
    "clip_grad_norm": "training.clip_norm",
    **dict.fromkeys(
        ("valid_steps", "eval_steps", "validation_freq", "valid_freq", "eval_every"),
        "training.validate_every",
    ),
    "validate_interval_updates": "training.validate_every",
    **dict.fromkeys(
        ("save_steps", "save_freq", "save_checkpoint_steps", "save_every"),
        "training.checkpoint_every",
    ),
    **dict.fromkeys(("logging_steps", "log_interval"), "training.log_every"),
    **dict.fromkeys(
        ("keep_checkpoint", "save_total_limit", "keep_last"),
        "training.keep_checkpoints",
    ),
    **dict.fromkeys(("early_stopping", "early_stop"), "training.patience"),
    **dict.fromkeys(
        ("fp16", "bf16", "amp", "mixed_precision", "dtype"), "training.precision"
    ),
    **dict.fromkeys(
        ("gradient_checkpointing", "checkpoint_activations", "recompute"),
        "training.remat",
    ),
    **dict.fromkeys(("gpus", "num_gpus", "world_size"), "training.devices"),
    **dict.fromkeys(("ema_decay", "exponential_smoothing"), "training.ema"),
    **dict.fromkeys(("random_seed",), "training.seed"),
    "adam_beta1": "training.optimizer.beta_1",
    "adam_beta2": "training.optimizer.beta_2",
    "weight_decay": "training.optimizer.weight_decay",
    # === Search, scores, output ===
    **dict.fromkeys(("beam", "beams", "num_beams"), "decoding.beam_size"),
    **dict.fromkeys(("nbest", "n_best", "num_return_sequences"), "decoding.top_beams"),
    **dict.fromkeys(
        ("lenpen", "length_alpha", "beam_alpha"), "decoding.length_penalty"
    ),
    **dict.fromkeys(("do_sample", "sample"), "decoding.sampling"),
    **dict.fromkeys(("tokenization", "tok"), "evaluation.tokenize"),
    **dict.fromkeys(("metric", "eval_metric"), "training.best_metric"),
    **dict.fromkeys(
        ("output_dir", "save_dir", "model_dir", "out", "run_dir"), "output"
    ),
}

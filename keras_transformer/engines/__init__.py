"""Engines: what runs a model folder, Keras itself or CTranslate2; needs no Keras."""

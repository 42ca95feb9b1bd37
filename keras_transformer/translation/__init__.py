"""Steps of a `Translator` around its model, between strings and ids."""

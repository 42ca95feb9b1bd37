"""Serving of an export to CTranslate2: validation of its folder, and its engine."""

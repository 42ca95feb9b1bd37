"""Serving of an export to CTranslate2: its folder, looked through, and its engine."""

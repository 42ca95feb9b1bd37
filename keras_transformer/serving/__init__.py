"""An HTTP server for a model folder, or for an export to CTranslate2.

A thin shell: `engine.py` says what it needs of a model, `batching.py` puts sentences of
many requests together, `application.py` speaks HTTP, `server.py` listens. Needs the
extra `serve` (Starlette, uvicorn, prometheus-client).
"""

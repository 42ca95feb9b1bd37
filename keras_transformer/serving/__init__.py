"""HTTP server for a model folder, or for an export to CTranslate2.

`engine.py` defines the interface of models, `batching.py` batches sentences of many
requests, `application.py` handles HTTP, `server.py` listens. Needs the extra `serve`
(Starlette, uvicorn, prometheus-client).
"""

# Image with the command keras-transformer, for `train` and `serve`.
#
#     docker build --build-arg BACKEND=jax -t keras-transformer .
#     docker build --build-arg BACKEND=torch --build-arg GPU=1 -t keras-transformer:gpu .
#
# BACKEND is tensorflow, jax or torch. GPU=1 installs the backend with CUDA; run that image
# with `--gpus all`. Without docker, the lines of pip were tried for the processor on each
# backend, in fresh environments; PyTorch came from PyPI there, not from its own index. The
# image itself has not been built, and the lines for a GPU have not been tried.
FROM python:3.11-slim

ARG BACKEND=jax
ARG GPU=0

# An allocator that trains faster, see docs/speed.md.
RUN apt-get update \
 && apt-get install -y --no-install-recommends libtcmalloc-minimal4 \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/keras-transformer
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY keras_transformer keras_transformer
RUN case "$BACKEND-$GPU" in \
      tensorflow-0) backend="tensorflow" ;; \
      tensorflow-1) backend="tensorflow[and-cuda]" ;; \
      jax-0) backend="jax" ;; \
      jax-1) backend="jax[cuda12]" ;; \
      torch-0) backend="torch --extra-index-url https://download.pytorch.org/whl/cpu" ;; \
      torch-1) backend="torch" ;; \
      *) echo "BACKEND must be tensorflow, jax or torch, and GPU 0 or 1" >&2; exit 2 ;; \
    esac \
 && pip install --no-cache-dir -c constraints.txt $backend \
 && pip install --no-cache-dir -c constraints.txt ".[$BACKEND,serve,plot]"

# Whoever runs a container may not be root; models and runs are mounted.
RUN useradd --create-home --uid 1000 translator && mkdir /work && chown translator /work
USER translator
WORKDIR /work
ENV KERAS_BACKEND=$BACKEND
EXPOSE 8501
ENTRYPOINT ["keras-transformer"]
CMD ["--help"]

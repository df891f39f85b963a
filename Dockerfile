# For a CPU:  docker build -t mmeffvit .
# For a GPU:  docker build -t mmeffvit:cuda \
#                 --build-arg BASE=nvidia/cuda:13.0.1-base-ubuntu24.04 \
#                 --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 .
# Run it:     docker run --rm --gpus all --ipc host -v "$PWD:/work" mmeffvit:cuda train data/bolts
ARG BASE=ubuntu:24.04
FROM ${BASE}

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libglib2.0-0 python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/mmeffvit
COPY . .
RUN PIP_NO_CACHE_DIR=1 TORCH_INDEX="${TORCH_INDEX}" python3 tools/environment/set_up.py
ENV PATH="/opt/mmeffvit/.venv/bin:${PATH}"

WORKDIR /work
ENTRYPOINT ["mmeffvit"]
CMD ["doctor"]

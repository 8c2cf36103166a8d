# Every command sets up what it needs: Python 3.11 or later, make and a package index suffice.
# PYTHON=python3.13 chooses an interpreter, DATABASE_URL a server.

.DEFAULT_GOAL := help
.PHONY: help test browser demo lint types docs bench bench-idle bench-pages soak db db-stop clean

candidates := python3 python3.14 python3.13 python3.12 python3.11
suitable := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
ifndef PYTHON
PYTHON := $(shell for name in $(candidates); do \
	if "$$name" -c '$(suitable)' 2>/dev/null; then echo "$$name"; break; fi; done)
endif

# A checkout that was copied elsewhere carries a stamp of the old place: it is set up anew.
venv := .venv
run := $(venv)/bin/python
mark := $(venv)/ready-$(shell pwd | cksum | cut -d' ' -f1)
pip := $(run) -m pip --disable-pip-version-check install --quiet
# All that Python can warn of, but not its memory's checks, which are for code in C.
strict := PYTHONDEVMODE=1 PYTHONMALLOC=pymalloc
SEED ?= 1
# Most of the suite's time is waiting; PROCESSES=0 runs it in one process.
PROCESSES ?= 3

help: ## Show these lines
	@grep -E '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 14

test: reachable $(mark) ## Run the whole suite on a real PostgreSQL
	$(strict) $(run) -m pytest --numprocesses=$(PROCESSES) --dist=loadfile --no-loadscope-reorder $(ARGS)

browser: reachable $(mark)-browser ## Use the admin in a real browser (Debian: apt-get install chromium)
	$(strict) $(run) -m pytest tests/browser $(ARGS)

demo: reachable $(mark) ## Watch a worker do real jobs; DEMO_EXIT=1 ends when they are done
	$(run) manage.py demo

lint: $(mark)-dev ## Check style, format and who imports whom
	$(run) -m ruff check
	$(run) -m ruff format --check
	$(venv)/bin/lint-imports

types: $(mark)-dev ## Check types
	$(run) -m mypy

docs: $(mark)-docs ## Build the documentation; a warning is an error
	$(run) -m sphinx -W -n --keep-going -b html docs docs/_build/html

bench: $(mark) ## Measure against the peers; or beside BALLAST=unplaceable,paused ROWS=1000000
	$(run) -m benchmarks $(if $(BALLAST),--ballast $(BALLAST)) $(if $(ROWS),--rows $(ROWS))

bench-idle: $(mark) ## Count what an idle worker costs
	$(run) -m benchmarks.idle

bench-pages: $(mark) ## Time every page of the admin beside a million ended jobs
	$(run) -m benchmarks.pages

soak: $(mark) ## Kill workers and the server for a while, then count; SEED=n
	$(run) -m benchmarks.soak --seed $(SEED)
	DJANGO_JOBS_LONG=1 $(run) -m pytest -q -s tests/worker/test_cron.py

db: reachable $(mark) ## Start the checkout's PostgreSQL and print its URL
	@$(run) -m testproject.postgres start

db-stop: ## Stop it
	@test ! -x $(run) || $(run) -m testproject.postgres stop

clean: ## Remove all that these commands have made
	@test ! -x $(run) || $(run) -m testproject.postgres remove
	rm -rf $(venv) .postgres var .nox dist docs/_build

# Told before anything is installed: a server that is not there.
.PHONY: reachable
reachable:
	@test -n '$(PYTHON)' || { echo "No Python >= 3.11 with venv was found: install one \
	(Debian: python3-venv) or set PYTHON." >&2; exit 1; }
	@$(PYTHON) -m testproject.reachable

$(mark): pyproject.toml | reachable
	$(PYTHON) -m venv --clear $(venv)
	$(pip) --upgrade 'pip>=25.1'
	$(pip) --group test --editable .
	@touch $@

$(mark)-browser: $(mark)
	$(pip) --group browser
	@touch $@

$(mark)-dev: $(mark)
	$(pip) --group dev
	@touch $@

$(mark)-docs: $(mark)
	$(pip) --group docs
	@touch $@

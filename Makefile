# What a newcomer types. Every target sets up what it needs in .venv; later runs start in seconds.
PYTHON ?= python3
VENV := .venv
# What running needs is installed by itself: who only tries Taskyard waits for no tools of developers.
RUNNING := $(VENV)/.running
READY := $(VENV)/.ready
INSTALL = $(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python --constraint constraints.txt --editable
# The clients that have tools of their own; the one in Python is part of everything here.
CLIENTS := go typescript java
# Tests run side by side, those picked with ARGS one after the other. There are two processes more than there are
# cores, since many tests wait. Many start processes of their own, so that more than eight at once only disturb each other.
WORKERS ?= $(if $(ARGS),0,$(shell expr $$(getconf _NPROCESSORS_ONLN) + 2))
# Those of the gate, and those whose servers are processes, mostly wait.
GATE_WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 3)
PYTEST = pytest --numprocesses=$(WORKERS) --maxprocesses=8 --dist=worksteal
# What runs once more in the gate: compiled, and with a store. Pure rules are held as they are written, in one form.
# Of the command line that is what shows what a store keeps.
SECOND_FORMS := $(addprefix tests/,services executors webhooks metrics)
OF_THE_STORE := commands list_history tree steps artifacts logs questions namespaces events schedules bulk
WITH_FILES := tests/app $(OF_THE_STORE:%=tests/cli/test_%.py) $(addprefix tests/gateway/test_,transcripts.py shutdown.py host_streams.py) \
	$(addprefix tests/clients/python/host/test_,real_server.py handlers_real_server.py short_heartbeats.py)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# What Python and pytest made of a source is kept for the next process, of which there are thousands.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup compile as-written plugins gate-tools up up-secure up-replicas test test-all test-gate test-deep flaky house wheel image lint lint-types lint-rest format generate console screenshots site deb wheels packages release-check clients conformance bench soak others clean
help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

setup: $(READY)  ## set up .venv and nothing else

# uv installs in seconds what takes pip a minute.
$(VENV)/bin/uv: constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	touch $@

$(RUNNING): pyproject.toml $(VENV)/bin/uv
	$(INSTALL) '.[server,gateway]'
	touch $@

$(READY): pyproject.toml $(VENV)/bin/uv
	$(INSTALL) '.[server,gateway,dev]'
	touch $(RUNNING) $@

$(VENV)/.site: pyproject.toml $(VENV)/bin/uv
	$(INSTALL) '.[site]'
	touch $@

compile: $(READY) ## bring what is compiled up to date, where there is a C compiler
	python tools/compile_server.py

as-written: $(RUNNING)
	@python tools/compile_server.py --remove-stale
	@test -e server/taskyard_server/.compiled || \
		echo 'The server runs as it is written. `make compile` (a minute, and gcc) makes its core three times as fast; wheels bring that.'

up: as-written   ## run the control plane: server, gateway, ready for a task (ARGS="--executor URL ...")
	taskyard up $(ARGS)

up-secure: as-written ## the same with TLS, roles and an audit log; what that needs is made in .local
	taskyard up --secure .local $(ARGS)

up-replicas: $(READY) as-written ## three replicas on one PostgreSQL, which comes by pip, and one address in front of them
	python -m tools.replica_yard .local/replicas $(ARGS)

# The protos are tested with the plugins of protoc that Go programs use.
plugins:
	MAKE=$(MAKE) tools/client.sh go setup

# Hundreds of megabytes, which the tests of the chart alone need.
gate-tools: $(VENV)/.gate $(VENV)/.site

$(VENV)/.gate: $(READY)
	$(INSTALL) '.[gate]'
	touch $@

# pytest rewrites each file of tests once. Where four processes begin with that, each does it for all.
$(VENV)/.rewritten: $(READY)
	for part in 'tests/[a-d]*' 'tests/[e-z]*'; do pytest --collect-only --quiet --tier=test $$part >/dev/null & done; wait
	touch $@

test: $(READY) $(VENV)/.rewritten ## each rule once: as it is written, and in memory (ARGS="-k name ...")
	python tools/compile_server.py --remove-stale
	$(PYTEST) --tier=test $(ARGS)

test-all: test test-gate wheel image clients conformance ## the gate: what `make test` has, and all that needs more than a newcomer has

test-gate: compile plugins gate-tools ## what only the gate has of the tests in Python
	$(PYTEST) --tier=gate -m python_core $$(grep -rl --include='test_*.py' python_core tests)
	$(PYTEST) --numprocesses=$(GATE_WORKERS) --tier=gate --core=compiled --store=sqlite
	$(PYTEST) --tier=test --core=compiled --store=dict $(SECOND_FORMS)
	$(PYTEST) --numprocesses=$(GATE_WORKERS) --tier=test --core=compiled --store=sqlite $(WITH_FILES)

test-deep: $(READY) plugins gate-tools ## what takes longer: before a release, and by night
	tools/test_deep.sh

flaky: $(READY)  ## tests again and again beside busy loops, to find those that know how fast the machine is (ARGS="tests/services -k retries" RUNS=10)
	python tools/flaky.py $(if $(RUNS),--runs $(RUNS)) $(ARGS)

house: $(READY)   ## the shape of the server in figures, which only shrink (tests/architecture/test_house.py)
	python -m tools.house

wheel: compile   ## build the wheel, install it where nothing else is, and use it
	pytest -m wheel tests/wheel

image: compile   ## build the image of the Dockerfile and run it, as root and without a Docker engine
	pytest -m image tests/wheel

lint: $(READY)   ## style, types, layers, what nothing uses, proto rules, stale generated code, workflows
	$(MAKE) --jobs=2 --output-sync=target lint-types lint-rest

lint-types:
	mypy
	MYPYPATH=bench mypy --exclude bench/beside bench

lint-rest:
	ruff check .
	ruff format --check .
	lint-imports
	vulture
	tools/generate.sh --check
	tools/generate.sh --breaking
	tools/console.sh --check
	tools/workflows.sh

format: $(READY) ## let ruff rewrite what it can
	ruff check --fix .
	ruff format .

generate: $(READY) ## all that is generated and committed: stubs, descriptor set, OpenAPI, docs/use/api.md and python.md, tables of docs/operate, the chart's schema
	tools/generate.sh
	for each in $(filter-out java,$(CLIENTS)); do MAKE=$(MAKE) tools/client.sh $$each setup generate || exit 1; done

console:         ## build gateway/console.html from console/, where there are Node and npm
	tools/console.sh

screenshots: $(READY) ## take the pictures of docs/use/console.md anew, where there is Chromium (ARGS="now task" picks some)
	python -m tools.screenshots $(ARGS)

site: $(VENV)/.site ## build the documents as a site, .site/html
	tools/site/build.sh .site

deb: $(RUNNING)  ## build a package for this Debian into dist/, where there is nfpm (WHEEL=FILE takes a wheel that is there)
	tools/deb.sh dist $(WHEEL)

packages: $(READY) ## pack the clients in all languages into dist/packages, as their users install them
	tools/packages/pack.sh dist/packages

wheels: $(READY) ## build the compiled wheels into dist/, for each Python of the package that the machine has
	tools/wheels.sh dist

release-check: packages wheels ## all of a release but its upload: each package is installed where nothing else is, and used
	python tools/packages/try.py dist/packages
	python tools/packages/try_index.py dist dist/packages/python

clients: $(CLIENTS:%=client-%) ## check and test the clients in Go, TypeScript and Java (CLIENTS=go picks one)

client-%: compile
	MAKE=$(MAKE) tools/client.sh $* setup check test

conformance: $(CLIENTS:%=program-%) ## the same scenario in every language against a live server, then hosts of all on one queue
	python clients/conformance/run.py $(ARGS)
	python clients/conformance/run.py --mixed

program-%: compile
	MAKE=$(MAKE) tools/client.sh $* setup conformance

bench: compile   ## what it costs, beside an older version (AGAINST=REF) and the bare transport (ROWS="core unary" picks some, ARGS="--json FILE")
	python bench/run.py $(if $(ROWS),--rows $(ROWS)) $(if $(AGAINST),--against $(AGAINST)) $(ARGS)

soak: compile    ## a day's load for an hour: memory and waiting times, first minutes beside last (ARGS="--minutes 10 --store sqlite")
	python bench/soak.py $(ARGS)

others: compile  ## other queues beside this one (ARGS="--rows durable --rounds 3"); their servers come into .bench
	bench/beside/programs.sh .bench/programs
	python bench/others.py $(ARGS)

clean:           ## remove everything that make made
	find server -name "*.so" -delete
	rm -rf server/taskyard_server/.compiled
	rm -rf .venv* .bench .site console/node_modules bench/load/bin third_party/googleapis dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# What a newcomer types. Every target sets up what it needs in .venv; later runs start in seconds.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
# What the protos must stay compatible with: the last release, or what is committed.
BASE ?= $(shell git describe --tags --abbrev=0 2>/dev/null || echo HEAD)
# The clients that have tools of their own; the one in Python is part of everything here.
CLIENTS := go typescript java
# Tests run side by side, those picked with ARGS one after the other. There are two processes more than there are
# cores, since many tests wait. Many start processes of their own, so that more than eight at once only disturb each other.
WORKERS ?= $(if $(ARGS),0,$(shell expr $$(getconf _NPROCESSORS_ONLN) + 2))
# The tests of engines and servers that run a second time, over SQLite.
WITH_STORE := $(addprefix tests/,services executors webhooks metrics faults stress \
	$(addprefix clients/python/host/test_,real_server.py handlers_real_server.py short_heartbeats.py) \
	$(addprefix gateway/test_,transcripts.py shutdown.py host_streams.py))
# Of what is never compiled, or comes to what is by no other way than the rest does.
OF_SOURCES := $(addprefix --ignore=tests/,access architecture cadence cli clients config console docs gateway live_config proto replicas store tools \
	test_ci.py test_examples.py)
# The server as a process: as it is written without a store, and compiled with one, which is how it runs.
OF_PROCESSES := tests/app
PYTEST = pytest --numprocesses=$(WORKERS) --maxprocesses=8 --dist=worksteal
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# What Python and pytest made of a source is kept for the next process, of which there are thousands.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup compile plugins up up-secure up-replicas test test-all flaky wheel lint format generate console screenshots clients conformance bench soak others clean
help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

setup: $(READY)  ## set up .venv and nothing else

$(READY): pyproject.toml constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[server,gateway,dev]'
	touch $@

compile: $(READY) ## bring what is compiled up to date, where there is a C compiler
	python tools/compile_server.py

up: compile      ## run the control plane: server, gateway, ready for a task (ARGS="--executor URL ...")
	taskyard up $(ARGS)

up-secure: compile ## the same with TLS, roles and an audit log; what that needs is made in .local
	python tools/secure_yard.py .local
	@echo "the admin token is in .local/admin.token, the authority in .local/ca.pem"
	TASKYARD_ADMIN_TOKEN=$$(cat .local/admin.token) taskyard up --config .local/taskyard.json $(ARGS)

up-replicas: compile ## three replicas on one PostgreSQL, which comes by pip, and one address in front of them
	python -m tools.replica_yard .local/replicas $(ARGS)

# The protos are tested with the plugins of protoc that Go programs use.
plugins:
	MAKE=$(MAKE) tools/client.sh go setup

test: $(READY) plugins ## all the tests, of the server as it is written (ARGS="-k name ...")
	python tools/compile_server.py --remove-stale
	SEEDS=60 $(PYTEST) -m "not wheel and not mutation and not trial" $(ARGS)

test-all: $(READY) plugins ## all the tests of both forms of the server, over SQLite too, and whether they notice rules that are broken
	python tools/compile_server.py --remove
	$(PYTEST) -m "not wheel"
	nice -n 19 python tools/compile_server.py --ahead & compiling=$$!; \
		$(PYTEST) --store=sqlite $(WITH_STORE); tested=$$?; wait $$compiling && exit $$tested
	python tools/compile_server.py
	if [ -n "$$CI" ] || [ -e server/taskyard_server/.compiled ]; then \
		SEEDS=60 $(PYTEST) --core=compiled -m "not wheel and not trial" $(OF_SOURCES) $(OF_PROCESSES:%=--ignore=%) && \
		$(PYTEST) --core=compiled --store=sqlite $(OF_PROCESSES); \
	else $(PYTEST) --store=sqlite $(OF_PROCESSES); fi

flaky: $(READY)  ## tests again and again beside busy loops, to find those that know how fast the machine is (ARGS="tests/services -k retries" RUNS=10)
	python tools/flaky.py $(if $(RUNS),--runs $(RUNS)) $(ARGS)

wheel: compile   ## build the wheel, install it where nothing else is, and use it
	pytest -m wheel tests/wheel

lint: $(READY)   ## style, types, layers, proto rules, stale generated code
	ruff check .
	ruff format --check .
	mypy
	MYPYPATH=bench mypy --exclude bench/beside bench
	lint-imports
	tools/generate.sh --check
	tools/generate.sh --breaking $(BASE)
	tools/console.sh --check

format: $(READY) ## let ruff rewrite what it can
	ruff check --fix .
	ruff format .

generate: $(READY) ## all that is generated and committed: stubs, descriptor set, OpenAPI, docs/api.md, docs/python.md, tables of docs/settings.md
	tools/generate.sh
	for each in $(filter-out java,$(CLIENTS)); do MAKE=$(MAKE) tools/client.sh $$each setup generate || exit 1; done

console:         ## build gateway/console.html from console/, where there are Node and npm
	tools/console.sh

screenshots: $(READY) ## take the pictures of docs/console.md anew, where there is Chromium (ARGS="now task" picks some)
	python -m tools.screenshots $(ARGS)

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
	rm -rf server/taskyard_server/.compiled server/.ahead
	rm -rf $(VENV) .venv-others* .bench console/node_modules bench/load/bin third_party/googleapis dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

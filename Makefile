# Everything that a developer or CI runs. Each target sets up what it needs first (scripts/setup.sh).

STORE ?= sqlite
PYTHON ?=
ARGS ?=
BIN := .venv/bin
# Spark binds to loopback: no name of this machine has to resolve, and nothing is offered to the network.
RUN = JAVA_HOME="$$(cat .venv/java-home)" SPARK_LOCAL_IP=127.0.0.1 PATH="$(CURDIR)/$(BIN):$(CURDIR)/.venv/etcd/usr/bin:$$PATH"

# Two at a time: tests that mostly wait for servers and disks, and tests with one JVM of Spark at a time. The others
# start several members with JVMs of their own, and run one by one.
LIGHT := tests/unit tests/contract tests/faults tests/regressions tests/house tests/bench
ONE_JVM := tests/spark tests/cli tests/agents
# No JVM of a test lives for longer than minutes: compiled lightly it costs a third less of the processor.
# The long tests leave it as users have it.
RUN_TESTS = SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" $(RUN)

.DEFAULT_GOAL := help
.PHONY: help setup servers demo test test-long mutants lint format bench clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r t d; do printf '  %-16s %s\n' "$$t" "$$d"; done

setup: ## install Java 17+, .venv and the packages, where missing
	@PYTHON="$(PYTHON)" sh scripts/setup.sh

servers: setup ## fetch the servers that the tests start (etcd; ZooKeeper comes with PySpark)
	@sh scripts/setup.sh etcd

demo: setup $(if $(filter etcd,$(STORE)),servers) ## a pipeline, a killed and a paused leader, the check of the output (STORE=sqlite, zookeeper or etcd)
	@$(RUN) $(BIN)/python -m demo.run --store $(STORE)

test: lint servers ## lint, then all tests but the long ones
	@$(RUN_TESTS) $(BIN)/python -m pytest -m "not long" --durations=20 -n 2 --dist loadfile $(LIGHT)
	@$(RUN_TESTS) $(BIN)/python -m pytest -m "not long" --durations=20 -n 2 --dist loadfile $(ONE_JVM)
	@$(RUN_TESTS) $(BIN)/python -m pytest -m "not long" --durations=20 $(addprefix --ignore=,$(LIGHT) $(ONE_JVM))

test-long: lint servers ## lint, then all tests
	@sh scripts/setup.sh hdfs
	@$(RUN) $(BIN)/python -m pytest

mutants: servers ## run the mutants, or some: make mutants ARGS="name ..."; each must turn the tests that it names red
	@$(RUN) $(BIN)/python -m tests.mutants.run $(ARGS)

lint: setup ## ruff, mypy, and the layers of ARCHITECTURE.md
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## rewrite the sources as `make lint` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup $(if $(filter handles,$(NAME))$(findstring etcd,$(ARGS)),servers) ## run one measurement: make bench NAME=x ARGS="..." runs bench/x.py
	@test -f "bench/$(NAME).py" || { echo "bench: no bench/$(NAME).py; say NAME=, one of: $$(ls bench | sed -n 's/\.py$$//p' | grep -vE '^(harness|handles_.*|takeover_.*|sweep_.*)$$' | tr '\n' ' ')"; exit 2; }
	@$(RUN) $(BIN)/python -m bench.$(NAME) $(ARGS)

clean: ## remove what was built and installed here
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f src/tenure/backends/etcd/etcd_pb2*.py
	find src tests demo bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Everything that a developer or CI runs. Each target sets up what it needs first (scripts/setup.sh).

STORE ?= sqlite
SOURCE ?= files
STORAGE ?= file
SINK ?= delta
PYTHON ?=
ARGS ?=
# The release of PySpark, beside the installed one, with which `test-other-spark` runs
OTHER_SPARK ?= 4.1
# The releases with which `test-nightly` runs whole folders
OTHER_SPARKS := 3.5 4.0 4.1 4.2
# The release of PySpark, beside the installed one, with which `demo`, `soak` and `bench` run; empty: the installed one
SPARK ?=
# `later`: a summary of several targets will print the line of counts, and not each of them
COUNTS ?=
# Targets that run beside the longest session of `test-rest`
THEN ?=
# `yes`: `test-other-spark` runs whole folders
WHOLE ?=
BIN := .venv/bin
# Spark binds to loopback: no name of this machine has to resolve, and nothing is offered to the network.
RUN = JAVA_HOME="$$(cat .venv/java-home)" SPARK_LOCAL_IP=127.0.0.1 PATH="$(CURDIR)/$(BIN):$(CURDIR)/.venv/etcd/usr/bin:$$PATH:$(CURDIR)/.venv/prometheus/usr/bin"
# All sessions of a target, whatever fails; which tests are whose is in tests/groups.py.
RUN_TESTS = $(RUN) $(BIN)/python -m tests.run $(if $(COUNTS),--counts-later)
# The path of Python with a release of PySpark, which `setup.sh spark` has put there, before the installed one
WITH_SPARK = PYTHONPATH="$(CURDIR)/.venv/spark-$(1)"

.DEFAULT_GOAL := help
.PHONY: help setup servers connectors kubernetes demo check for-test fetched for-rest for-other-spark test test-rest test-other-spark test-undrawn test-whole-other-spark test-long test-nightly mutants soak lint format bench docs dist clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r t d; do printf '  %-24s %s\n' "$$t" "$$d"; done

setup: ## install Java 17+, .venv and the packages, where missing
	@PYTHON="$(PYTHON)" sh scripts/setup.sh

servers: setup ## fetch the servers that the tests start (etcd, Kafka; ZooKeeper comes with PySpark)
	@sh scripts/setup.sh etcd
	@sh scripts/setup.sh kafka

connectors: setup ## fetch the jars of the connectors (Kafka, S3) for the tests
	@sh scripts/setup.sh connectors

kubernetes: servers ## build Kubernetes' API server and kubectl for the tests, with Go 1.24 or newer; minutes the first time
	@sh scripts/setup.sh kubernetes

demo: setup $(if $(filter etcd kafka,$(STORE) $(SOURCE) $(SINK)),servers) $(filter kubernetes,$(STORE)) $(if $(filter kafka s3,$(SOURCE) $(STORAGE)),connectors) ## a pipeline, a killed and a paused leader, the check of the output (STORE=sqlite, zookeeper, etcd, kubernetes, postgres or s3; SOURCE=files or kafka; STORAGE=file, s3 or hdfs; SINK=delta, files, iceberg, kafka, postgres or mysql; SPARK=4.1: another PySpark)
	@$(if $(filter hdfs,$(STORAGE)),sh scripts/setup.sh hdfs)
	@$(if $(filter postgres,$(STORE) $(SINK)),sh scripts/setup.sh postgres)
	@$(if $(filter mysql,$(SINK)),sh scripts/setup.sh mariadb)
	@$(if $(SPARK),sh scripts/setup.sh spark $(SPARK))
	@$(if $(and $(SPARK),$(filter kafka s3,$(SOURCE) $(STORAGE))),sh scripts/setup.sh connectors $(SPARK))
	@$(if $(SPARK),$(call WITH_SPARK,$(SPARK))) $(RUN) $(BIN)/python -m demo.run --store $(STORE) --source $(SOURCE) --storage $(STORAGE) --sink $(SINK)

check: setup ## lint, and the tests that need no JVM and no server; seconds after the first time
	@$(RUN_TESTS) check

# What each of the targets below needs: .ci/run fetches the parts of a later target beside the tests of the first. The
# first time, the API server is built beside what is fetched.
for-test:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh venv
	@sh scripts/setup.sh kubernetes & building=$$!; $(MAKE) --no-print-directory fetched; status=$$?; wait $$building && exit $$status

fetched: servers connectors
	@sh scripts/setup.sh postgres
	@sh scripts/setup.sh mariadb

for-rest: for-test
	@sh scripts/setup.sh hdfs
	@sh scripts/setup.sh prometheus
	@sh scripts/setup.sh chromium

for-other-spark: for-test
	@sh scripts/setup.sh hdfs
	@sh scripts/setup.sh spark $(OTHER_SPARK)
	@sh scripts/setup.sh connectors $(OTHER_SPARK)

test: for-test ## lint, and what shows that it works: every store, every kind of death; about 10 minutes on 2 cores
	@$(RUN_TESTS) test

test-rest: for-rest ## all other tests, but the long ones
	@$(RUN_TESTS) rest $(if $(THEN),--then $(THEN))

test-other-spark: for-other-spark ## what differs between releases, with another PySpark, which is beside the installed one
	@$(call WITH_SPARK,$(OTHER_SPARK)) $(RUN_TESTS) $(if $(WHOLE),whole-other-spark,other-spark)-$(OTHER_SPARK)

test-whole-other-spark: ## tests/spark and tests/crash with another PySpark
	@$(MAKE) --no-print-directory test-other-spark WHOLE=yes

test-other-spark-%: # with a release: test-other-spark-4.1
	@$(MAKE) --no-print-directory test-other-spark OTHER_SPARK=$*

test-whole-other-spark-%:
	@$(MAKE) --no-print-directory test-other-spark OTHER_SPARK=$* WHOLE=yes

test-undrawn: for-rest ## what the hash of this commit leaves out: other servers, other scenes
	@$(RUN_TESTS) undrawn

test-long: for-rest ## the long tests, and many more examples of each property, at random
	@sh scripts/setup.sh patroni
	@sh scripts/setup.sh cloud
	@for release in 3.5 4.1; do sh scripts/setup.sh spark $$release && sh scripts/setup.sh connectors $$release || exit 1; done
	@$(RUN_TESTS) long

test-nightly: ## everything: each test, on each server, and each other Spark whole
	@.ci/run test test-rest test-undrawn $(OTHER_SPARKS:%=test-whole-other-spark-%) test-long

mutants: servers ## run the mutants, or some: make mutants ARGS="name ..."; each must turn the tests that it names red
	@sh scripts/setup.sh postgres
	@sh scripts/setup.sh mariadb
	@sh scripts/setup.sh cloud
	@$(RUN) $(BIN)/python -m tests.mutants.run $(ARGS)

soak: setup $(if $(findstring etcd,$(ARGS))$(findstring kafka,$(ARGS)),servers) $(findstring kubernetes,$(ARGS)) $(if $(findstring kafka,$(ARGS))$(findstring s3,$(ARGS)),connectors) ## end members at random, and compare each output with the truth: make soak ARGS="--ends 500 --seed 1", ARGS="--placed all"; SPARK=3.5: another PySpark
	@$(if $(findstring storage hdfs,$(ARGS)),sh scripts/setup.sh hdfs)
	@$(if $(findstring postgres,$(ARGS)),sh scripts/setup.sh postgres)
	@$(if $(findstring mysql,$(ARGS)),sh scripts/setup.sh mariadb)
	@$(if $(SPARK),sh scripts/setup.sh spark $(SPARK))
	@$(if $(and $(SPARK),$(findstring kafka,$(ARGS))$(findstring s3,$(ARGS))),sh scripts/setup.sh connectors $(SPARK))
	@$(if $(SPARK),$(call WITH_SPARK,$(SPARK))) $(RUN) $(BIN)/python -m tests.soak $(ARGS)

lint: setup ## ruff, mypy, and the rooms of ARCHITECTURE.md
	@$(RUN) $(BIN)/python -m tests.run lint

format: setup ## rewrite the sources as `make lint` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup $(if $(filter handles stores,$(NAME))$(findstring etcd,$(ARGS))$(findstring kafka,$(ARGS)),servers) $(if $(filter api_requests stores,$(NAME))$(findstring kubernetes,$(ARGS)),kubernetes) ## run one measurement: make bench NAME=x ARGS="..." runs bench/x.py
	@test -f "bench/$(NAME).py" || { echo "bench: no bench/$(NAME).py; say NAME=, one of: $$(ls bench | sed -n 's/\.py$$//p' | grep -vE '^(harness|api_requests_.*|fleet_.*|plans|handles_.*|takeover_.*|sweep_.*|watchers)$$' | tr '\n' ' ')"; exit 2; }
	@$(if $(filter handles stores,$(NAME))$(findstring postgres,$(NAME) $(ARGS)),sh scripts/setup.sh postgres)
	@$(if $(findstring mysql,$(ARGS)),sh scripts/setup.sh mariadb)
	@$(if $(findstring watched,$(ARGS)),sh scripts/setup.sh prometheus)
	@$(if $(SPARK),sh scripts/setup.sh spark $(SPARK))
	@$(if $(SPARK),$(call WITH_SPARK,$(SPARK))) $(RUN) $(BIN)/python -m bench.$(NAME) $(ARGS)

# A link within the pages or a reference that leads nowhere ends it. Links to other sites are not fetched.
docs: setup ## build the pages of docs/ into build/docs, and check the links between them
	$(BIN)/python -m sphinx -W --keep-going -n -E -q -b html -d build/doctrees docs build/docs
	@echo "docs: open build/docs/index.html"

dist: setup ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean: ## remove what was built and installed here
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f src/tenure/backends/etcd/etcd_pb2*.py
	find src tests demo bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

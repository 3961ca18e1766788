# Two commands: `make demo` and `make test`. What they need is set up by itself, once, in .venv.

SHELL := /bin/sh
BIN := .venv/bin
READY := .venv/ready
# One more than two cores: tests of Spark jobs wait most of the time. With two more it took longer.
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest
# The kernels as plain Python, which notices an index out of bounds: structures, ways, and the laws that
# hold answers against their definition, at the small size. The other laws go through the same kernels
# (make test-nojit PLAIN_LAWS='*' runs all of them).
PLAIN_LAWS ?= matches_naive invariants_hold special_numbers window_laws threshold_laws named_cases
PLAIN_SUITE = tests/indexes tests/operators $(wildcard $(PLAIN_LAWS:%=tests/contract/test_%.py))

.PHONY: help demo test test-jit test-nojit test-spark test-recovery check figures kernels lock clean

help:
	@echo "make demo        replay real trades against 100,000 standing queries; draws a picture"
	@echo "make test        the test suite, compiled and (small) as plain Python; tidy rules: make check"
	@echo "make check       ruff, mypy strict, import layers, tidy rules"
	@echo "make figures     measure the papers' figures at full size, write benchmarks/REPORT.md"
	@echo "make test-nojit  only the small suite with the kernels as plain Python"
	@echo "make test-spark  the long Spark tests: all homes, a cluster, kills, small figures"
	@echo "make test-recovery  at least 20 kills -9 of drivers, executors and Python processes"
	@echo "make kernels     list anew which kernels set-up compiles ahead"
	@echo "make lock        resolve requirements.lock again (needs pip-tools' download)"
	@echo "make clean       remove .venv, caches and what the demo wrote"

demo: $(READY)
	$(BIN)/standfast demo

test: test-jit test-nojit

test-jit: $(READY)
	$(PYTEST) -n $(WORKERS) --dist loadscope -m "not sweep" --ignore tests/test_tidy.py

test-nojit: $(READY)
	NUMBA_DISABLE_JIT=1 $(PYTEST) -n $(WORKERS) --dist loadscope -m "not large and not sweep" $(PLAIN_SUITE)

test-spark: $(READY)
	$(PYTEST) -m sweep

test-recovery: $(READY)
	$(BIN)/python -m tests.recovery

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(PYTEST) tests/test_tidy.py

figures: $(READY)
	$(BIN)/python -m benchmarks --full

# Everything is pinned with hashes and comes as wheels, so nothing is compiled here; only pyspark,
# which has no wheel, is unpacked from its source archive (and packed and unpacked again on its way:
# without compression). Python's own bytecode is made at once, on all cores: Spark starts many
# processes, and without it each reads every module from its source. What the kernels need comes
# first, so that they are compiled while the rest is fetched.
PIP_INSTALL = $(BIN)/python -m pip install --disable-pip-version-check
PINNED = --only-binary :all: --no-binary pyspark --no-compile --require-hashes \
  --use-pep517 --config-settings=--build-option=--compression=stored
FOR_KERNELS := llvmlite|numba|numpy|pyarrow|sqlglot

$(READY): requirements.lock pyproject.toml
	@found=; \
	for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    found=$$python; break; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Standfast needs Python 3.11 or newer; none found as python3 or python3.11 to 3.14." >&2; \
	  echo "Install one, or say where it is: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	echo "Setting up .venv with $$found (once; two or three minutes)"; \
	rm -rf .venv; \
	$$found -m venv .venv || { \
	  echo "$$found has no working venv module; on Debian or Ubuntu: apt install python3-venv" >&2; \
	  rm -rf .venv; exit 1; }
	awk '/^[a-z]/ { wanted = /^($(FOR_KERNELS))==/ } wanted' requirements.lock > .venv/kernels.lock
	$(PIP_INSTALL) $(PINNED) --no-deps -r .venv/kernels.lock
	@PYTHONPATH=src $(BIN)/python -m standfast.compiling & compiling=$$!; \
	$(PIP_INSTALL) $(PINNED) -r requirements.lock \
	&& $(PIP_INSTALL) --quiet --no-deps --no-build-isolation --editable . \
	&& $(BIN)/python -m compileall -q -j 0 .venv/lib src \
	|| { kill $$compiling; exit 1; }; \
	wait $$compiling || echo "Not all kernels are compiled ahead; those that are not will be when they are called."
	@touch $@

kernels: $(READY)
	empty=$$(mktemp -d) && STANDFAST_CACHE=$$empty $(BIN)/python -m benchmarks.kernels; rm -rf "$$empty"

lock: $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet pip-tools
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --generate-hashes --allow-unsafe \
	  --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  --extra dev --extra spark --output-file requirements.lock pyproject.toml

clean:
	rm -rf .venv build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  .import_linter_cache src/standfast.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

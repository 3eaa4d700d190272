# `make demo` and `make test` set up everything they need; see README.md.
PYTHON ?= $(shell for p in python3.11 python3.13 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info[:2] not in ((3,11),(3,13)))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
LIBRARIES := libegl1 libgl1 libgl1-mesa-dri libx11-6 libxrender1 libxfixes3 libxi6 libxkbcommon0 libsm6
OUT ?= runs/demo

.PHONY: demo test lint slow setup models clean

demo: setup
	$(BIN)/real2gym demo --out $(OUT)

test: setup
	$(BIN)/python -m pytest

slow: setup
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml robots.txt
	@test -n "$(PYTHON)" || { echo "Real2Gym needs Python 3.11 or 3.13 (Blender's wheel exists for these): install one of them, or run make PYTHON=/path/to/python3.11"; exit 3; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv module: apt-get install python3-venv"; exit 3; }
	@./.ci/libraries $(LIBRARIES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[blender,dev]'
	$(BIN)/pip install --quiet --no-deps -r robots.txt
	touch $@

# SAM 2 beside the environment's own torch; its weights are yours to download (see `real2gym doctor`).
models: setup
	$(BIN)/pip install --quiet 'torch>=2.5' hydra-core iopath tqdm pillow 'setuptools<81' wheel
	SAM2_BUILD_CUDA=0 $(BIN)/pip install --quiet --no-build-isolation --no-deps sam2==1.1.0

clean:
	rm -rf $(VENV) build dist *.egg-info

# Each target makes the virtual environment by itself; only the first time
# takes long. Needs Python 3.11, 3.12 or 3.13 with venv, and make.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
# Apache Beam has an environment of its own: see requirements-beam.txt.
BEAM_READY := .venv-beam/.ready
# So have the peers that benchmarks/peers compares with.
PEERS_READY := .venv-peers/.ready
GARDEN_READY := .venv-model-garden/.ready
ORIGINAL_READY := .venv-original/.ready
# And NVIDIA's libraries.
GPU_READY := .venv-gpu/.ready

# A process for each core; four processes need 10 GiB of memory.
PYTEST := $(RUN) -m pytest -n auto --maxprocesses=4 --no-loadscope-reorder

.PHONY: machine demo test test-all test-slow lint format bench check-gpu peers \
	peers-model-garden peers-original clean

## machine: refuses a Python or a system that the packages do not exist for
machine:
	@case "$$(uname -sm)" in \
	"Linux x86_64"|"Linux aarch64"|"Darwin arm64") ;; \
	*) echo "error: $$(uname -sm) is not supported: TensorFlow has packages" \
		"for Linux (x86-64, aarch64) and macOS (arm64). On Windows use" \
		"WSL, which is Linux." >&2; exit 1 ;; \
	esac
	@$(PYTHON) -c "import sys; sys.tracebacklimit = 0; import data; \
	sys.exit('error: Python %d.%d is too new: the pinned TensorFlow has ' \
	'packages for 3.11, 3.12 and 3.13; name one of them, such as: ' \
	'make PYTHON=python3.13' % sys.version_info[:2] \
	if sys.version_info >= (3, 14) else 0)"

## demo: raw text to a pretrained BERT, on text every Python carries
##       (make demo TEXT=my.txt MINUTES=15 takes yours, in any language)
demo: $(READY)
	$(RUN) -m demo.run_demo $(if $(TEXT),--text="$(TEXT)") \
		$(if $(MINUTES),--minutes=$(MINUTES))

## test: what a change breaks
test: $(READY)
	$(PYTEST)

## test-all: also what few changes break: kills, workers, other storage,
##           readiness for GPUs and TPUs, ELECTRA, studies, benchmarks, Beam
test-all: $(READY) $(BEAM_READY)
	$(PYTEST) --all

## test-slow: every test; REAL_DATA=DIR for those on public data
test-slow: $(READY) $(BEAM_READY)
	$(PYTEST) --slow $(if $(REAL_DATA),--real_data="$(REAL_DATA)")

## lint: what CI checks before the tests
lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/zizmor --offline --quiet .github/workflows
	$(VENV)/bin/hadolint Dockerfile Dockerfile.gpu

format: $(READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

## bench: all that has a target, measured (less than an hour; QUICK=1
##        ONLY=ROW REAL_DATA=DIR TEXT=FILE MINILM=DIR)
bench: $(READY)
	$(RUN) -m benchmarks.bench $(if $(QUICK),--quick) \
		$(foreach row,$(ONLY),--only=$(row)) \
		$(if $(REAL_DATA),--data="$(REAL_DATA)") \
		$(if $(TEXT),--text="$(TEXT)") \
		$(if $(MINILM),--minilm="$(MINILM)")

## check-gpu: values and speed on this machine's NVIDIA GPUs, in ten minutes
##            after the packages (several GB); see docs/gpu.md
check-gpu: $(GPU_READY)
	$(<D)/bin/python -m benchmarks.check_gpu.main

## peers: the environments of other libraries that
##        benchmarks/peers/compare.py measures (1.2 GB, 40 s)
peers: $(READY) $(PEERS_READY)

## peers-model-garden: another one, for pretraining alone (3.3 GB, 100 s)
peers-model-garden: $(READY) $(GARDEN_READY)

## peers-original: and one for the original's own programs (1.7 GB, 60 s;
##                 Python 3.11)
peers-original: $(READY) $(ORIGINAL_READY)

clean:
	rm -rf build .pytest_cache .ruff_cache .hypothesis

# Made anew when the requirements change; a half-made one has no .ready.
$(READY): requirements-dev.txt requirements.txt
$(BEAM_READY): requirements-beam.txt
$(PEERS_READY): benchmarks/peers/requirements.txt
$(GARDEN_READY): benchmarks/peers/requirements-model-garden.txt
$(ORIGINAL_READY): benchmarks/peers/requirements-original.txt
$(GPU_READY): requirements-gpu.txt requirements.txt
$(READY) $(BEAM_READY) $(PEERS_READY) $(GARDEN_READY) $(ORIGINAL_READY) \
$(GPU_READY):
	@$(MAKE) --no-print-directory machine
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# Each target makes the virtual environment by itself; only the first time
# takes long. Needs Python 3.11 with venv, and make.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
# Apache Beam has an environment of its own: see requirements-beam.txt.
BEAM_READY := .venv-beam/.ready

.PHONY: demo test test-slow lint format bench clean

## demo: raw text to a pretrained BERT, on text every Python carries
##       (make demo TEXT=my.txt takes yours)
demo: $(READY)
	$(RUN) -m demo.run_demo $(if $(TEXT),--text="$(TEXT)")

## test: the quick tests
test: $(READY) $(BEAM_READY)
	$(RUN) -m pytest

## test-slow: every test; REAL_DATA=DIR for those on public data
test-slow: $(READY) $(BEAM_READY)
	$(RUN) -m pytest --slow $(if $(REAL_DATA),--real_data="$(REAL_DATA)")

## lint: what CI checks before the tests
lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

## bench: one pretraining step, float32 and bfloat16
bench: $(READY)
	$(RUN) benchmarks/train_step.py
	$(RUN) benchmarks/train_step.py --precision=bfloat16

clean:
	rm -rf build .pytest_cache .ruff_cache .hypothesis

# Made anew when the requirements change; a half-made one has no .ready.
$(READY): requirements.txt
$(BEAM_READY): requirements-beam.txt
$(READY) $(BEAM_READY):
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

"""What the tests of the start of a run are given."""

import pytest

from tests.support.model_folder_support import write_original
from training.config.extraction_options import (
    ExtractionOptions,
    VectorOptions,
)
from training.config.run_options import DeviceOptions


@pytest.fixture
def released(goldens, tmp_path):
    """A folder as the original released them."""
    return write_original(goldens, tmp_path / "released", "first_layer.json")


@pytest.fixture
def vector_options(goldens, released, tmp_path):
    """Of vectors by `released`, whose other files no flag gives."""
    return ExtractionOptions(
        input_file=str(goldens / "extract_features/input.txt"),
        output_file=str(tmp_path / "one.jsonl"),
        init_checkpoint=str(released / "bert_model.ckpt"),
        max_seq_length=64,
        vectors=VectorOptions(layers=(-1,)),
        device=DeviceOptions(),
    )

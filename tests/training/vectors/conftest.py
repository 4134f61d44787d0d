"""What the tests of vectors are given."""

import pytest

from training.config.extraction_options import ExtractionOptions, VectorOptions
from training.config.run_options import DeviceOptions


@pytest.fixture
def options(goldens, tmp_path):
    """As the golden vectors were made, to be changed."""
    return ExtractionOptions(
        input_file=str(goldens / "extract_features/input.txt"),
        output_file=str(tmp_path / "vectors"),
        bert_config_file=str(goldens / "bert_config.json"),
        init_checkpoint=str(goldens / "model/trained"),
        vocab_file=str(goldens / "vocab.txt"),
        max_seq_length=64,
        vectors=VectorOptions(layers=(-1, -2)),
        device=DeviceOptions(),
    )

"""What extract_features.py writes, and what the original wrote."""

import json

import numpy as np

from tests.support import rounding
from tests.support.run_files import json_lines_in
from training.config.extraction_options import ExtractionOptions, VectorOptions
from training.config.run_options import DeviceOptions
from training.runs import vectors as extraction


def extracted(folder, tmp_path, lines, **vectors):
    """Arrays of lines by the model of a folder; by default its last layer."""
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n", "utf-8")
    extraction.run(
        ExtractionOptions(
            input_file=str(tmp_path / "lines.txt"),
            output_file=str(tmp_path / "vectors.npz"),
            bert_config_file=f"{folder}/bert_config.json",
            init_checkpoint=str(folder),
            vocab_file=f"{folder}/vocab.txt",
            batch_size=2,
            vectors=VectorOptions(**{"layers": (-1,)} | vectors),
            format="npz",
            device=DeviceOptions(),
        )
    )
    return np.load(tmp_path / "vectors.npz")


def assert_golden(path, goldens, num_lines=6, tolerance=rounding.SIX_DECIMALS):
    """The lines are the first of the original's."""
    theirs = json_lines_in(goldens / "extract_features/expected.jsonl")
    for lines in zip(json_lines_in(path), theirs[:num_lines], strict=True):
        values = [
            [
                layer.pop("values")
                for feature in line["features"]
                for layer in feature["layers"]
            ]
            for line in lines
        ]
        ours, its = map(json.dumps, lines)
        assert ours == its
        np.testing.assert_allclose(*values, rtol=0, atol=tolerance)

"""The vectors that the original's extract_features.py wrote."""

import json

import numpy as np

from tests.support import rounding


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def assert_golden(path, goldens, count=6, tolerance=rounding.SIX_DECIMALS):
    """Asserts that the lines of a file are the first ones of the original's."""
    theirs = read_json(goldens / "extract_features/expected.jsonl")[:count]
    for pair in zip(read_json(path), theirs, strict=True):
        values = [
            [
                layer.pop("values")
                for feature in line["features"]
                for layer in feature["layers"]
            ]
            for line in pair
        ]
        x, y = map(json.dumps, pair)  # the order of names, too
        assert x == y
        np.testing.assert_allclose(*values, rtol=0, atol=tolerance)

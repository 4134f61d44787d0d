"""Another model's vectors of texts, as what a model learns.

Axes: N texts, T numbers of a teacher's vector, H numbers of ours.
"""

import numpy as np
from absl import logging

from data.storage import files
from data.vectors.vector_files import open_array

_SAMPLE = 100_000  # vectors that decide the axes


def read_teacher(path: str, num_examples: int) -> np.ndarray:
    """Opens a .npy file of vectors, [N, T], without reading it whole."""
    files.require_file(path, "--teacher_vectors")
    vectors = open_array(path, f"--teacher_vectors={path}: not a .npy file")
    is_rows = vectors.ndim == 2 and vectors.dtype.kind == "f"
    if not is_rows or len(vectors) != num_examples:
        raise ValueError(
            f"--teacher_vectors={path} holds {vectors.dtype} of the shape "
            f"{list(vectors.shape)}, expected floats [{num_examples}, size]: a "
            "row for each text of the train set, in its order."
        )
    return vectors


def fitted(vectors: np.ndarray, size: int, rotate: bool) -> np.ndarray:
    """Fits a teacher's vectors, [N, T], to the size H of ours.

    Vectors of the same size are unchanged. Otherwise, or with `rotate`, they
    are rotated to their principal axes, the largest first, then truncated or
    zero-padded. No other H numbers preserve the dot products better. Raises
    ValueError if a number is nan or infinite, or all numbers of a row are 0.
    """
    vectors = np.asarray(vectors, np.float32)
    finite = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
    if not finite.all():
        raise ValueError(
            f"--teacher_vectors: row {int(np.argmin(finite))} (from 0) has a "
            "number that is nan or infinite, or only zeros; compute it again."
        )
    if vectors.shape[1] != size or rotate:
        logging.info(
            f"The teacher's vectors have {vectors.shape[1]} numbers, the "
            f"model's {size}: they are rotated to their principal axes, the "
            "largest first."
        )
        step = -(-len(vectors) // _SAMPLE)
        sample = vectors[::step].astype(np.float64)
        _, axes = np.linalg.eigh(sample.T @ sample)  # smallest first
        vectors = vectors @ axes[:, ::-1].astype(np.float32)
    missing = max(0, size - vectors.shape[1])
    return np.pad(vectors[:, :size], [(0, 0), (0, missing)])

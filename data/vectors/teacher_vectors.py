"""Another model's vectors of texts, as what a model learns.

Axes: N texts, T numbers of a teacher's vector, H numbers of ours.
"""

import os

import numpy as np

from data.storage import files

_SAMPLE = 100_000  # vectors that decide the axes


def read_teacher(path: str, num_examples: int) -> np.ndarray:
    """Opens a .npy file of vectors, [N, T], without reading it whole.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not such a file, or its rows are not the examples'.
    """
    if not files.exists(path):
        raise FileNotFoundError(f"--teacher_vectors={path}: no such file.")
    try:
        vectors = np.load(os.fspath(path), mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(
            f"--teacher_vectors={path}: not a .npy file ({error}); write it by "
            "numpy.save, a row for each text."
        ) from None
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise ValueError(
            f"--teacher_vectors={path} holds {vectors.dtype} of the shape "
            f"{list(vectors.shape)}, expected floats [texts, size]."
        )
    if len(vectors) != num_examples:
        raise ValueError(
            f"--teacher_vectors={path} has {len(vectors)} rows, but the train "
            f"set {num_examples} texts; give a row for each text, in the order "
            "of the file."
        )
    return vectors


def fitted(vectors: np.ndarray, size: int, rotate: bool) -> np.ndarray:
    """Gives a teacher's vectors another size, and keeps their angles.

    Vectors of the same size are unchanged. Otherwise, or to `rotate`, their
    axes become the principal ones, the largest first: then the first numbers
    keep the products of vectors as well as any can. Missing ones are 0.

    Args:
      vectors: float [N, T].
      size: H.
      rotate: whether the first numbers of a vector shall do, too.

    Returns:
      Float32 [N, H].

    Raises:
      ValueError: a number is nan or infinite.
    """
    vectors = np.asarray(vectors, np.float32)
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"--teacher_vectors: row {int(np.argmin(finite))} (from 0) has a "
            "number that is nan or infinite; compute it again."
        )
    if vectors.shape[1] != size or rotate:
        step = -(-len(vectors) // _SAMPLE)
        sample = vectors[::step].astype(np.float64)
        _, axes = np.linalg.eigh(sample.T @ sample)  # smallest first
        vectors = vectors @ axes[:, ::-1].astype(np.float32)
    missing = max(0, size - vectors.shape[1])
    return np.pad(vectors[:, :size], [(0, 0), (0, missing)])

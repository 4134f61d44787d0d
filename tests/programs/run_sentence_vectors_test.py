import numpy as np
import pytest

import bert
from tests.support import fork_server, rounding
from tests.support.model_folders import write_released

PROGRAM = fork_server.ROOT / "run_sentence_vectors.py"
MODEL = "--init_checkpoint=model"
ENCODE = ("--do_encode", MODEL, "--input_file=a.txt", "--output_file=a.npy")
SEARCH = ("--do_search", MODEL, "--index_file=a.npy")
TRAIN = ("--do_train", MODEL, "--output_dir=out")


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (ENCODE, "--loss=cosent"),
        (ENCODE, "--top_k=3"),
        (SEARCH, "--vector_size=8"),
        (TRAIN, "--input_file=a.txt"),
    ],
)
def test_a_flag_that_is_not_read_is_refused(tmp_path, command, flag):
    flags = *command, flag
    done = fork_server.cold_python(PROGRAM, *flags, cwd=tmp_path, code=1)
    assert done.stderr.startswith(f"error: {flag.partition('=')[0]}: ")
    assert "leave it out" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_boolean_with_its_default_is_accepted(tmp_path):
    flags = *ENCODE, "--do_train=false"
    done = fork_server.python(PROGRAM, *flags, cwd=tmp_path, code=1)
    assert "a.txt: no such --input_file" in done.stderr


def test_vectors_in_bfloat16_differ_by_roundings_only(goldens, tmp_path):
    # The process lays out its weights once: each block must have its own.
    write_released(goldens, tmp_path / "model")
    texts = ["one two three", "two", "three one " * 9, "four two one"]
    (tmp_path / "a.txt").write_text("\n".join(texts))
    flags = "--precision=bfloat16", "--encode_batch_size=2"
    fork_server.python(PROGRAM, *ENCODE, *flags, cwd=tmp_path)
    wanted = bert.load(tmp_path / "model").encode(texts)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    num_roundings = rounding.EMBEDDINGS + 3 * rounding.BLOCK
    found = np.load(tmp_path / "a.npy")
    rounding.assert_near(found, wanted, "bfloat16", num_roundings)
    assert np.abs(found - wanted).max() > 1e-4  # it was in bfloat16

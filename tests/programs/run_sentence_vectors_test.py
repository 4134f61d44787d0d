import pytest

from tests.support import fork_server

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
    name = flag.partition("=")[0]
    assert done.stderr.startswith(f"error: {name}: ")
    assert "leave it out" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_boolean_with_its_default_is_accepted(tmp_path):
    flags = *ENCODE, "--do_train=false"
    done = fork_server.python(PROGRAM, *flags, cwd=tmp_path, code=1)
    assert "a.txt: no such --input_file" in done.stderr

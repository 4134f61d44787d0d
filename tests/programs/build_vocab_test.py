import pytest

from tests.support import fork_server


def refused(text, folder, *flags):
    output = f"--output_file={folder}/v"
    return fork_server.python("build_vocab.py", text, output, *flags, code=1)


def test_writes_a_vocabulary_and_reports(goldens, tmp_path):
    output = tmp_path / "vocab.txt"
    result = fork_server.python(
        "build_vocab.py",
        f"--input_file={goldens}/pretraining_data/corpus*.txt",
        f"--output_file={output}",
        "--vocab_size=300",
        "--num_unused=2",
    )
    lines = output.read_text("utf-8").splitlines()
    assert len(lines) == 300
    assert lines[:4] == ["[PAD]", "[unused0]", "[unused1]", "[UNK]"]
    assert f"{output}: 300 tokens from " in result.stderr
    assert "0.000 % of the words become [UNK]" in result.stderr


def test_missing_input_ends_in_one_line(tmp_path):
    result = refused("--input_file=/nowhere/*.txt", tmp_path)
    assert "error: --input_file: no file matches" in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--vocab_size=0", "--vocab_size=0; it must be at least 1."),
        ("--reserved_tokens=[UNK]", "--reserved_tokens=[UNK]; they must begin"),
    ],
)
def test_bad_flags_are_refused_before_the_text_is_read(tmp_path, flag, message):
    # A text that is missing would be the error otherwise.
    result = refused("--input_file=/nowhere", tmp_path, flag)
    assert result.stderr.splitlines()[-1].startswith(f"error: {message}")

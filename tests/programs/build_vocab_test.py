from tests.support import fork_server


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

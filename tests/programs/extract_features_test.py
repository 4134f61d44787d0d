import json

import pytest

from tests.support import fork_server
from tests.support.model_folder_support import write_huggingface
from tests.support.vectors_support import assert_golden


def run(goldens, input_file, output_file, *flags, devices=1):
    """Starts the program on the golden model."""
    return fork_server.python(
        "extract_features.py",
        f"--input_file={input_file}",
        f"--output_file={output_file}",
        f"--vocab_file={goldens}/vocab.txt",
        f"--bert_config_file={goldens}/bert_config.json",
        f"--init_checkpoint={goldens}/model/trained/model.ckpt-60",
        *flags,
        devices=devices,
    )


def test_the_originals_command(goldens, tmp_path):
    output = tmp_path / "vectors.jsonl"
    done = run(
        goldens,
        goldens / "extract_features/input.txt",
        output,
        "--layers=-1,-2",
        "--max_seq_length=64",
        "--batch_size=8",
    )
    assert "extracting: 6/6 lines" in done.stderr
    assert_golden(output, goldens)


def test_without_flags_text_is_cut_as_in_the_training(goldens, tmp_path):
    write_huggingface(goldens, tmp_path / "theirs")
    (tmp_path / "theirs/tokenizer_config.json").write_text(
        '{"do_lower_case": false, "additional_special_tokens": ["the"]}'
    )
    (tmp_path / "in.txt").write_text("The mantheman.\n")
    fork_server.python(
        "extract_features.py",
        f"--input_file={tmp_path}/in.txt",
        f"--output_file={tmp_path}/vectors.jsonl",
        f"--init_checkpoint={tmp_path}/theirs",
        "--layers=-1",
        "--max_seq_length=16",
    )
    line = json.loads((tmp_path / "vectors.jsonl").read_text())
    tokens = [feature["token"] for feature in line["features"]]
    assert tokens == ["[CLS]", "[UNK]", "man", "the", "man", ".", "[SEP]"]


@pytest.mark.all
def test_two_devices_and_an_odd_number_of_lines(goldens, tmp_path):
    text = (goldens / "extract_features/input.txt").read_text("utf-8")
    (tmp_path / "in.txt").write_text("\n".join(text.split("\n")[:5]), "utf-8")
    done = run(
        goldens,
        tmp_path / "in.txt",
        tmp_path / "vectors.jsonl",
        "--layers=-1,-2",
        "--max_seq_length=64",
        "--batch_size=4",
        "--distribution_strategy=mirrored",
        devices=2,
    )
    assert "Computing on 2 CPU device(s) by MirroredStrategy" in done.stderr
    assert_golden(tmp_path / "vectors.jsonl", goldens, num_lines=5)

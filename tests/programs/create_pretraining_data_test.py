"""create_pretraining_data.py as its users start it."""

import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "create_pretraining_data.py"


def run(*arguments):
    return subprocess.run(
        [sys.executable, PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )


def read(path):
    return [
        tf.train.Example.FromString(record)
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]


def test_the_originals_command_writes_the_originals_records(goldens, tmp_path):
    folder = goldens / "pretraining_data"
    done = run(
        f"--input_file={folder}/corp*.txt",
        f"--output_file={tmp_path}/out.tf_record",
        f"--vocab_file={goldens}/vocab.txt",
        "--do_lower_case=True",
        "--do_whole_word_mask=False",
        "--max_seq_length=64",
        "--max_predictions_per_seq=10",
        "--masked_lm_prob=0.15",
        "--random_seed=12345",
        "--dupe_factor=2",
        "--short_seq_prob=0.1",
    )
    assert done.returncode == 0, done.stderr
    assert "Wrote 337 examples" in done.stderr
    # As messages: the order of a record's features is not fixed.
    expected = read(folder / "wordpiece_masking.tf_record")
    assert read(tmp_path / "out.tf_record") == expected


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--max_seq_length=4", "error: --max_seq_length=4; it must be at le"),
        ("--input_file=absent*", "error: --input_file: no file matches 'abse"),
        (
            "--word_segmenter=space",
            "error: --word_segmenter=space needs --do_whole_word_mask; give ",
        ),
        (
            "--word_segmenter=space --do_whole_word_mask --masking=dynamic "
            "--num_processes=1",
            "error: --word_segmenter=space needs --masking=static: with dynami",
        ),
        ("--tfds_split=test", "error: --tfds_split=test is for --tfds, "),
        ("--tfds_data_dir=d", "error: --tfds_data_dir=d is for --tfds, "),
        ("--tfds_text_key=t", "error: --tfds_text_key=t is for --tfds, "),
        (
            "--beam_options=a --num_processes=1",
            "error: --beam_options=a is for --runner, which is not given; give",
        ),
        (
            "--masked_lm_prob=0.3 --masking=dynamic --num_processes=1",
            "error: --masked_lm_prob=0.3: with --masking=dynamic, run_pretrain",
        ),
        ("--word_segmenter=ab", "error: --word_segmenter=ab; expected what is"),
        (
            "--word_segmenter=absent:cut --do_whole_word_mask",
            "error: --word_segmenter=absent:cut cannot be imported",
        ),
    ],
)
def test_bad_flags_end_in_one_line(goldens, tmp_path, flag, message):
    done = run(
        f"--input_file={goldens}/pretraining_data/corpus.txt",
        f"--output_file={tmp_path}/out",
        f"--vocab_file={goldens}/vocab.txt",
        *flag.split(),
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(message)
    assert "Traceback" not in done.stderr


def test_a_vocabulary_of_the_other_case_is_warned_of(goldens, tmp_path):
    tokens = (goldens / "vocab.txt").read_text()
    words = "".join(f"Word{i}\n" for i in range(300))
    (tmp_path / "vocab.txt").write_text(tokens + words)
    (tmp_path / "text.txt").write_text("one\ntwo\n")
    done = run(
        f"--input_file={tmp_path}/*.txt",
        f"--output_file={tmp_path}/out",
        f"--vocab_file={tmp_path}/vocab.txt",
    )
    assert done.returncode == 0, done.stderr
    assert "vocab.txt has 300 wordpieces with capitals" in done.stderr
    assert "--do_lower_case=false" in done.stderr

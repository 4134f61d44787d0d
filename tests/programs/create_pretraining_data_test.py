import pytest

from tests.support.pretraining_support import RECORDS, create
from tests.support.run_files import examples_in


def test_the_originals_command_writes_the_originals_records(goldens, tmp_path):
    done = create(
        goldens,
        tmp_path / "out.tf_record",
        f"--input_file={goldens}/pretraining_data/corp*.txt",
        "--do_lower_case=True",
        "--do_whole_word_mask=False",
        "--masked_lm_prob=0.15",
        "--random_seed=12345",
        "--dupe_factor=2",
        "--short_seq_prob=0.1",
    )
    assert "Wrote 337 examples" in done.stderr
    # As messages: the order of a record's features is not fixed.
    expected = examples_in(goldens / RECORDS)
    assert examples_in(tmp_path / "out.tf_record") == expected


STREAM = "--num_processes=1"
DYNAMIC = "--masking=dynamic"
WORDS = "--do_whole_word_mask"
SINGLE = "--next_sentence_prediction=false"
SPACE = "--word_segmenter=space"
SHARE = "--masked_lm_prob=0.3"
ORDER = "--sentence_order_prediction"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--input_file=absent*"], "--input_file: no file matches 'absent*'"),
        ([SPACE], f"{SPACE} needs --do_whole_word_mask"),
        ([SPACE, WORDS, DYNAMIC, STREAM], f"{SPACE} needs --masking=static: "),
        (["--word_segmenter=ab"], "--word_segmenter=ab; expected what is"),
        (["--word_segmenter=absent:cut", WORDS], "--word_segmenter=absent:cut"),
        ([STREAM, "--tfds=a/b"], "give either --input_file or --tfds"),
        (["--beam_options=a", STREAM], "--beam_options=a is for --runner, "),
        ([STREAM, "--runner=DirectRunner"], "--runner needs Apache Beam, "),
        ([DYNAMIC], "--masking=dynamic is for --num_processes, which is not"),
        ([SHARE, DYNAMIC, STREAM], f"{SHARE}: with {DYNAMIC}, run_pretraining"),
        ([STREAM, "--join_documents"], f"--join_documents needs {SINGLE}"),
        ([STREAM, SINGLE, ORDER], f"{ORDER} needs --next_sentence_prediction"),
    ],
)
def test_bad_flags_end_in_one_line(goldens, tmp_path, flags, message):
    done = create(goldens, tmp_path / "out", *flags, code=1)
    assert done.stderr.splitlines()[-1].startswith(f"error: {message}")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_vocabulary_of_the_other_case_is_warned_of(goldens, tmp_path):
    tokens = (goldens / "vocab.txt").read_text()
    words = "".join(f"Word{i}\n" for i in range(300))
    (tmp_path / "vocab.txt").write_text(tokens + words)
    (tmp_path / "text.txt").write_text("one\ntwo\n")
    done = create(
        goldens,
        tmp_path / "out",
        f"--input_file={tmp_path}/text.txt",
        f"--vocab_file={tmp_path}/vocab.txt",
    )
    assert "vocab.txt has 300 wordpieces with capitals or" in done.stderr
    assert "--do_lower_case=false" in done.stderr


def test_the_vocabulary_is_not_text(goldens, tmp_path):
    text = f"--input_file={goldens}/voc*.txt"
    done = create(goldens, tmp_path / "out", text, code=1)
    message = f"error: {text} holds --vocab_file={goldens}/vocab.txt"
    assert done.stderr.splitlines()[-1].startswith(message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flags", [[], [STREAM]], ids=["memory", "stream"])
def test_shards_of_two_vocabularies_are_not_mixed(goldens, tmp_path, flags):
    shard = tmp_path / "out-00000-of-00002"
    create(goldens, tmp_path / "out@2", *flags)
    before = shard.read_bytes()
    tokens = (goldens / "vocab.txt").read_text()
    (tmp_path / "more.txt").write_text(f"{tokens}more\n")
    flags = [*flags, f"--vocab_file={tmp_path}/more.txt"]
    done = create(goldens, shard, *flags, code=1)
    message = f"error: --output_file: {tmp_path}/out@2 has other shards, made"
    assert done.stderr.splitlines()[-1].startswith(message)
    assert shard.read_bytes() == before
    done = create(goldens, shard, *flags[:-1], "--do_lower_case=false", code=1)
    assert "made with another --do_lower_case; give" in done.stderr
    assert shard.read_bytes() == before
    create(goldens, tmp_path / "out@2", *flags)
    assert shard.read_bytes() != before

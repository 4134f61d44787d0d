import json
import shutil

import pytest

from data.pretraining.data_options import PretrainingDataOptions
from tests.support import tfds_support
from tests.support.fork_server import ROOT
from tests.support.pretraining_support import (
    assert_same_checkpoint,
    create,
    latest_step,
    refused,
)
from tests.support.run_files import results_in
from training.runs import pretraining

DIRECT = "--runner=DirectRunner"
BEAM_PYTHON = ROOT / ".venv-beam/bin/python"

# Beam is optional and wants another protobuf than tensorflow-datasets. `make
# test-all` always makes its environment; who calls pytest by hand may not have
# it.
needs_beam = pytest.mark.skipif(
    not BEAM_PYTHON.exists(),
    reason="needs .venv-beam; `make test-all` makes it",
)


def shards(folder):
    return {p.name: p.read_bytes() for p in folder.glob("out-*")}


@pytest.fixture(scope="module")
def streamed(goldens, tmp_path_factory):
    """Three shards, written by one process."""
    folder = tmp_path_factory.mktemp("streamed")
    create(goldens, folder / "out@3", "--num_processes=1")
    return folder


def test_two_processes_write_what_one_writes(goldens, streamed, tmp_path):
    done = create(goldens, tmp_path / "out@3", "--num_processes=2")
    assert shards(tmp_path) == shards(streamed)
    assert sorted(shards(tmp_path)) == [f"out-0000{i}-of-00003" for i in "012"]
    manifest = json.loads((tmp_path / "out@3.manifest.json").read_text())
    examples = manifest["counts"]["examples"]
    assert f"Wrote {examples:,} examples" in done.stderr


@pytest.mark.all
@needs_beam
@pytest.mark.parametrize(
    "options",
    ["", "--direct_running_mode=multi_processing --direct_num_workers=2"],
)
def test_beam_writes_the_same_shards(goldens, streamed, tmp_path, options):
    create(
        goldens,
        tmp_path / "out@3",
        "--num_processes=1",
        DIRECT,
        f"--beam_options={options}",
        python=BEAM_PYTHON,
    )
    assert shards(tmp_path) == shards(streamed)


@pytest.mark.all
@needs_beam
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--runner=DirektRunner"], "--runner=DirektRunner: Unexpected "),
        ([DIRECT, "--beam_options=--nonsense=4"], "--beam_options: Beam know"),
        ([DIRECT, "--beam_options='"], "--beam_options=': No closing"),
        ([DIRECT, "--tfds=mills"], "--tfds=mills needs a missing package: "),
    ],
)
def test_bad_flags_of_beam(goldens, tmp_path, flags, message):
    done = create(
        goldens,
        tmp_path / "out",
        "--num_processes=1",
        *flags,
        python=BEAM_PYTHON,
        has_text="--tfds=mills" not in flags,
        code=1,
    )
    assert done.stderr.splitlines()[-1].startswith(f"error: {message}")
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("output", "vocab", "message"),
    [
        ("out", "absent", "absent: no such text file."),
        ("out", "short", "short has no [UNK], [CLS], [SEP], [MASK] "),
        ("", "short", " is a folder; give the path of a file."),
    ],
)
def test_what_is_wrong_is_found_before_the_data_set_is_read(
    goldens, tmp_path, output, vocab, message
):
    (tmp_path / "short").write_text("a\n")
    done = create(
        goldens,
        tmp_path / output,
        *("--num_processes=1", "--tfds=absent"),
        f"--vocab_file={tmp_path / vocab}",
        has_text=False,
        code=1,
    )
    assert message in done.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["short"]


@pytest.mark.all
def test_a_data_set_of_tfds_is_a_corpus(goldens, tmp_path):
    texts = [
        f"The old mill {i}. It stood by the river. Nobody came there.\n"
        for i in range(12)
    ]
    tfds_support.prepare_texts(tmp_path / "tfds", "mills", texts)
    create(
        goldens,
        tmp_path / "out",
        "--num_processes=1",
        "--tfds=mills",
        f"--tfds_data_dir={tmp_path / 'tfds'}",
        "--split_sentences",
        "--dupe_factor=2",
        has_text=False,
    )
    manifest = json.loads((tmp_path / "out.manifest.json").read_text())
    assert manifest["counts"]["documents"] == 12
    assert manifest["counts"]["sentences"] == 36
    assert (tmp_path / "out.tfds-text/text-00000.txt").exists()


@pytest.fixture(scope="module")
def unmasked(goldens, tmp_path_factory):
    """Two gzip shards without masks."""
    folder = tmp_path_factory.mktemp("unmasked")
    create(
        goldens,
        folder / "out@2",
        "--num_processes=1",
        "--masking=dynamic",
        "--compression=gzip",
    )
    manifest = json.loads((folder / "out@2.manifest.json").read_text())
    assert manifest["made_from"]["dupe_factor"] == 1
    return folder


@pytest.fixture
def dynamic(options, goldens, unmasked):
    """Training on records that are masked while they are read."""
    return options.replace(
        input_file=f"{unmasked}/out@2",
        vocab_file=str(goldens / "vocab.txt"),
        masking=PretrainingDataOptions(
            max_seq_length=64, max_predictions_per_seq=10
        ),
        num_train_steps=8,
        save_checkpoints_steps=4,
    )


@pytest.mark.all
@pytest.mark.parametrize(
    # Step 4 is without short rows, behind them, or one of them.
    "short_rows_share",
    [0, 0.25, 0.75],
)
def test_training_with_new_masks_resumes_bit_for_bit(
    dynamic, tmp_path, short_rows_share
):
    dynamic = dynamic.replace(short_rows_share=short_rows_share)
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    pretraining.run(dynamic.replace(output_dir=str(whole), do_eval=True))
    assert "masked_lm_loss" in results_in(whole)
    # As if it had been killed after step 4.
    shutil.copytree(whole, resumed)
    for path in resumed.glob("model.ckpt-[68]*"):
        path.unlink()
    assert latest_step(resumed) == 4
    pretraining.run(dynamic.replace(output_dir=str(resumed)))
    # Each update of short rows reads twice as many.
    point = json.loads((whole / "model.ckpt-8.resume.json").read_text())
    rows = dynamic.train.train_batch_size * 8 * (1 + short_rows_share)
    assert point["examples_seen"] == rows
    assert_same_checkpoint(whole / "model.ckpt-8", resumed / "model.ckpt-8")


def test_too_few_predictions_are_reported_where_masks_are_drawn(
    dynamic, caplog
):
    pretraining.Run(dynamic.replace(max_predictions_per_seq=2))._open_records()
    assert "--max_predictions_per_seq=2, but masked_lm_prob 0.15" in caplog.text


def test_masks_are_neither_made_twice_nor_forgotten(dynamic, streamed):
    masked = f"{streamed}/out@3"
    refused(dynamic, "are masked; pass --masking=static", input_file=masked)
    refused(dynamic, "are not masked; pass --masking=dynamic", masking=None)
    refused(dynamic, "Flag --vocab_file must have .*: no voc", vocab_file=None)


def test_another_vocabulary_of_the_same_size_is_refused(
    dynamic, goldens, tmp_path
):
    tokens = (goldens / "vocab.txt").read_text("utf-8").splitlines()
    special, words = tokens[:5], tokens[5:]
    for other in [*special, *words[::-1]], [*words, *special]:
        vocab = tmp_path / "vocab.txt"
        vocab.write_text("\n".join(other) + "\n", "utf-8")
        message = f"--vocab_file={vocab} and .*out-00000-of-00002 do not have"
        message += ".*; give the --vocab_file of create_pretraining_data.py"
        refused(dynamic, message, vocab_file=str(vocab))

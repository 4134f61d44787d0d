"""Every program with all of its paths on a storage that is no local disk.

TensorFlow's `ram://` stands for `gs://`: both are reached through `tf.io.gfile`
alone, so that a path which went past it would not be found.
"""

import ast
import os

import numpy as np
import pytest
import tensorflow as tf

from data.pretraining.data_options import PretrainingDataOptions
from data.pretraining.exact.in_memory import write_pretraining_data
from data.pretraining.recipe import Recipe
from data.squad.ensembling import EnsembleOptions, average_runs
from data.storage import files
from data.text import vocabulary, vocabulary_building
from modeling import checkpoints
from modeling.checkpoints.model_folder import chosen_trial
from modeling.checkpoints.vector_form import VectorForm
from tests.support import pretraining_support, rounding
from tests.support.fork_server import ROOT
from tests.training import finetuning_support, squad_support
from training.config.extraction_options import ExtractionOptions, VectorOptions
from training.config.finetuning_options import TrialOptions
from training.config.run_options import DeviceOptions, ExportOptions
from training.config.vector_options import EncodingOptions, FormOptions
from training.convert import conversion
from training.convert.conversion import ConversionOptions
from training.export import saved_model
from training.export.predictor import Predictor
from training.many_runs import trials
from training.runs import classifier, encoding, pretraining, questions
from training.runs import vectors as extraction


def _rename(rename, source, target, overwrite=False):
    """Renames a folder file by file, as `gs://` does.

    `ram://` renames the folder, and leaves its files behind.
    """
    inside = [
        os.path.join(folder, name)
        for folder, _, names in tf.io.gfile.walk(source)
        for name in names
        # It takes `assets.extra` for a file of `assets`, too.
        if tf.io.gfile.exists(os.path.join(folder, name))
    ]
    for path in inside:
        place = target + path.removeprefix(source)
        tf.io.gfile.makedirs(os.path.dirname(place))
        rename(path, place, overwrite=overwrite)
    if not inside:
        rename(source, target, overwrite=overwrite)


@pytest.fixture(autouse=True)
def nothing_local(monkeypatch, tmp_path):
    """Files that a program writes into the current folder would be seen."""
    monkeypatch.chdir(tmp_path)
    rename = tf.io.gfile.rename
    monkeypatch.setattr(
        tf.io.gfile, "rename", lambda *a, **k: _rename(rename, *a, **k)
    )
    yield
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def remote(goldens):
    """The golden files, far away."""
    root = "ram://goldens"
    for path in goldens.rglob("*"):
        if path.is_file() and "tokenization" not in path.parts:
            place = f"{root}/{path.relative_to(goldens)}"
            tf.io.gfile.makedirs(os.path.dirname(place))
            tf.io.gfile.copy(str(path), place, overwrite=True)
    return RemotePath(root)


class RemotePath:
    """As much of `pathlib` as `squad_support` needs."""

    def __init__(self, path):
        self.path = path

    def __truediv__(self, name):
        return RemotePath(f"{self.path}/{name}")

    def __str__(self):
        return self.path


def names_in(folder):
    return set(tf.io.gfile.listdir(folder))


def text_of(path):
    with tf.io.gfile.GFile(path) as file:
        return file.read()


@pytest.mark.all
def test_text_becomes_a_vocabulary_and_records(remote):
    paths = files.expand_patterns(f"{remote}/pretraining_data/corp*.txt")
    counts = vocabulary_building.count_words(paths, do_lower_case=True)
    vocab = vocabulary_building.learn_vocab(
        counts, vocabulary.LearningOptions(vocab_size=300)
    )
    vocabulary.write_vocab("ram://made/vocab.txt", vocab)
    assert list(vocabulary.load_vocab("ram://made/vocab.txt")) == vocab
    counts = write_pretraining_data(
        paths,
        files.expand_shards("ram://made/records@2"),
        Recipe(PretrainingDataOptions(), "ram://made/vocab.txt"),
    )
    assert counts["examples"]
    made = {f"records-0000{i}-of-00002" for i in range(2)}
    assert made <= names_in("ram://made")


@pytest.mark.all
def test_pretraining_resumes_evaluates_and_answers(remote, capsys):
    out = "ram://pretraining"
    options = pretraining_support.make_options(remote, out)
    options = options.replace(do_eval=True, max_eval_steps=1)
    pretraining.run(options)
    pretraining.run(options.replace(num_train_steps=3))
    assert "global_step = 3\n" in text_of(f"{out}/eval_results.txt")
    assert {"model.ckpt-2.index", "model.ckpt-3.index", "eval"} <= names_in(out)
    files.write_text("ram://asked/queries.txt", "the [MASK] went\n")
    pretraining.run(
        options.replace(
            do_train=False,
            do_eval=False,
            do_predict=True,
            predict_file="ram://asked/queries.txt",
            vocab_file=f"{remote}/vocab.txt",
            strip_checkpoint=True,
        )
    )
    assert text_of(f"{out}/predict_results.jsonl") == capsys.readouterr().out
    read = checkpoints.Checkpoint(f"{out}/bert_model.ckpt")
    assert not [name for name in read.shapes if "adam" in name]


def classifier_options(remote, out, **changes):
    return finetuning_support.options_of(
        remote,
        None,
        finetuning={
            "output_dir": out,
            "init_checkpoint": f"{remote}/model/init",
            "max_seq_length": 16,
            "num_train_epochs": 1.0,
            "save_best": "accuracy",
            "train_batch_size": 16,
            "eval_every_steps": 4,
        },
        task_name="mrpc",
        task_options={},
        data_dir=f"{remote}/classifier/MRPC",
        **changes,
    )


@pytest.mark.all
@pytest.mark.parametrize("num_trials", [1, 2])
def test_a_classifier_is_trained_exported_and_converted(remote, num_trials):
    out = f"ram://classifier/{num_trials}"
    options = classifier_options(remote, out)
    if num_trials == 1:
        classifier.run(options)
    else:
        trials.run(options, TrialOptions(num_trials=num_trials))
        assert "trials.tsv" in names_in(out)
    assert {"test_results.tsv", "metrics.json"} <= names_in(out)
    # Another run, of the finished folder alone.
    classifier.run(
        classifier_options(remote, chosen_trial(out), do_train=False)
    )
    served = f"{out}-served"
    folder = saved_model.run(ExportOptions(output_dir=out, export_dir=served))
    assert folder == f"{served}/1"
    pairs = [("he left", "he is gone"), ("a", "b")]
    answers = [
        [x["probabilities"] for x in Predictor.load(place).predict(pairs)]
        for place in (served, out)
    ]
    np.testing.assert_allclose(*answers, atol=rounding.ONE_SUM)
    theirs, back = f"{out}-theirs", f"{out}-back"
    conversion.run(ConversionOptions(model=out, output_dir=theirs))
    conversion.run(ConversionOptions(model=theirs, output_dir=back))
    before, after = map(checkpoints.open_checkpoint, (theirs, back))
    for name in after.shapes:
        np.testing.assert_array_equal(before.read(name), after.read(name))


@pytest.mark.all
def test_questions_are_answered_by_one_run_and_by_two(remote):
    for out in ("ram://squad/a", "ram://squad/b"):
        questions.run(
            squad_support.make_options(
                remote, out, do_train=out.endswith("a"), write_html=True
            )
        )
    # The weights of the second are not its own.
    described = text_of("ram://squad/b/task.json")
    assert "ram://goldens/squad/finetuned_v1.1" in described
    folder = saved_model.run(
        ExportOptions(output_dir="ram://squad/b", export_dir="ram://squad/e")
    )
    assert tf.saved_model.contains_saved_model(folder)
    runs = ["ram://squad/a", "ram://squad/b"]
    average_runs(EnsembleOptions(runs=runs, output_dir="ram://squad/both"))
    assert "predictions.json" in names_in("ram://squad/both")


@pytest.mark.all
@pytest.mark.parametrize("form", ["jsonl", "npz"])
def test_features_are_extracted(remote, form):
    extraction.run(
        ExtractionOptions(
            input_file=f"{remote}/extract_features/input.txt",
            output_file=f"ram://features/vectors.{form}",
            format=form,
            vocab_file=f"{remote}/vocab.txt",
            bert_config_file=f"{remote}/first_layer.json",
            init_checkpoint=f"{remote}/model/init",
            max_seq_length=32,
            attention_png="ram://features/attention.png",
            vectors=VectorOptions(layers=(-1,)),
            device=DeviceOptions(),
        )
    )
    assert tf.io.gfile.stat(f"ram://features/vectors.{form}").length > 1000
    assert tf.io.gfile.stat("ram://features/attention.png").length > 1000


@pytest.mark.all
def test_texts_are_encoded_and_searched(remote):
    for name in names_in(f"{remote}/model/init"):
        files.copy(f"{remote}/model/init/{name}", f"ram://released/{name}")
    files.copy(f"{remote}/vocab.txt", "ram://released/vocab.txt")
    files.copy(f"{remote}/first_layer.json", "ram://released/bert_config.json")
    VectorForm().write("ram://released")
    files.write_text("ram://texts/texts.txt", "one\ntwo three\nfour\n")
    files.write_text("ram://questions/questions.txt", "two three\n")
    options = EncodingOptions(
        do_encode=True,
        init_checkpoint="ram://released",
        input_file="ram://texts/texts.txt",
        output_file="ram://index/index.npy",
        form=FormOptions(),
        device=DeviceOptions(),
    )
    encoding.run(options)
    search = options.replace(
        do_encode=False,
        do_search=True,
        index_file=options.output_file,
        input_file="ram://questions/questions.txt",
        output_file="ram://found/found.jsonl",
        top_k=1,
    )
    encoding.run(search)
    assert '"text": "two three"' in text_of(search.output_file)


# What looks at the local disk alone, and why it may.
LOCAL = {
    "data/storage/files.py": "chooses between the local disk and `tf.io.gfile`",
    "data/storage/outputs.py": "compares paths; reads none",
    "data/pretraining/streaming/disk_shuffle.py": "scratch files of a process",
    "data/pretraining/streaming/all_shards.py": "removes those of killed runs",
    "data/storage/locks.py": "the kernel locks local disks only",
    "data/storage/cuda.py": "libraries of this machine",
    "data/progress.py": "asks how wide the terminal is",
    "data/storage/html_pages.py": "reads its own template",
    "data/finetuning/error_page.py": "names its own script",
    "data/squad/page.py": "names its own script",
    "training/export/model_card.py": "reads its own template",
    "training/export/litert.py": "a scratch folder that the converter reads",
    "data/squad/ensembling.py": "compares paths; reads none",
    "modeling/checkpoints/tf1.py": "makes a local disk write what it holds",
    "data/pretraining/corpus.py": "the documentation that Python carries",
    "modeling/checkpoints/huggingface.py": "a local copy, to be mapped",
    "training/loop/checkpointing.py": "local folders, not links; free space",
    "training/devices/gpus.py": "devices of this machine",
    "training/devices/strategy.py": "reads /proc/cpuinfo",
    "training/devices/workers.py": "scratch folders of workers",
    "training/program.py": "/dev/null",
    "training/json_log.py": "standard error of this process",
}
_OF_OS = """
    exists isfile isdir listdir scandir walk stat getsize makedirs mkdir remove
    unlink rmdir rename replace open realpath relpath
""".split()


def _local_calls(path):
    """What a file does with local paths: line, and the call."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", None) or ""]
            names += [alias.name for alias in node.names]
            found = {"shutil", "pathlib", "tempfile"} & set(names)
            yield from ((node.lineno, name) for name in found)
        elif isinstance(node, ast.Call):
            call = ast.unparse(node.func)
            module, _, name = call.rpartition(".")
            if call == "open" or (
                module in ("os", "os.path") and name in _OF_OS
            ):
                yield node.lineno, call


def test_paths_of_users_go_through_gfile():
    paths = [*ROOT.glob("*.py")]
    for folder in ("data", "modeling", "training"):
        paths += (ROOT / folder).rglob("*.py")
    local = {
        str(path.relative_to(ROOT)): calls
        for path in paths
        if (calls := sorted(_local_calls(path)))
    }
    assert local.keys() == LOCAL.keys(), {
        name: calls for name, calls in local.items() if name not in LOCAL
    }

"""Runs of run_sentence_vectors.py: resume, second commands, bad input."""

import json
import shutil

import numpy as np
import pytest

import bert
from data.vectors import teacher_vectors
from data.vectors.text_sets import TextOptions
from modeling import VectorForm
from modeling.checkpoints.tf1 import write_state
from tests.support.model_folders import span_description, write_released
from tests.support.pretraining_support import assert_same_checkpoint
from tests.support.run_files import write_json_lines
from tests.support.serving_support import batch_of, export
from tests.training.finetuning_support import make_options
from training.config.finetuning_options import FinetuningOptions
from training.config.run_options import DeviceOptions, TrainOptions
from training.config.vector_options import FormOptions, SentenceOptions
from training.loop.trainer import Trainer
from training.runs import sentences

WORDS = "the man went to a store and she said that it was".split()


def write_table(folder, count=20):
    """Pairs of texts of like words, and their score."""
    rng = np.random.default_rng(1)
    rows = ["text_a\ttext_b\tscore"]
    for number in range(count):
        first, second = (" ".join(rng.choice(WORDS, 4)) for _ in range(2))
        rows.append(f"{first} {number}\t{second} {number}\t{rng.random():.3f}")
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n", "utf-8")


def options_of(goldens, folder, given=(), **changes):
    """Two epochs of five steps; `given` are the flags of the command."""
    return SentenceOptions(
        vocab_file=str(goldens / "vocab.txt"),
        do_train=True,
        do_eval=True,
        form=FormOptions(),
        texts=TextOptions(data_dir=str(folder)),
        finetuning=make_options(
            goldens,
            folder / "out",
            train_batch_size=4,
            max_seq_length=12,
            save_checkpoints_steps=3,
            keep_checkpoint_max=0,
        ),
    ).replace(**changes, given=frozenset(given))


NEGATIVES = {"loss": "negatives", "vector_sizes": (8,)}


@pytest.fixture(scope="module")
def finished(goldens, tmp_path_factory):
    """A run with negatives and cached gradients, evaluated at two sizes."""
    folder = tmp_path_factory.mktemp("vectors")
    write_table(folder)
    options = options_of(
        goldens,
        folder,
        given=("loss", "vector_sizes", "max_seq_length"),
        gradient_accumulation_steps=2,
        **NEGATIVES,
    )
    return folder, sentences.run(options)


def copied(finished, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    return folder


def test_training_finds_the_right_texts(finished):
    folder, results = finished
    written = json.loads((folder / "out/metrics.json").read_text())
    assert written == {"global_step": 10, "max_seq_length": 12, **results}
    names = ("mrr_at_10", "accuracy_at_1", "accuracy_at_10")
    assert [*results["dev"]] == [*names, *(f"{name}_8" for name in names)]
    before = 1 / np.arange(1, 11)
    assert results["dev"]["mrr_at_10"] > before.sum() / 20  # of random ranks
    form = VectorForm.find(str(folder / "out"))
    assert form == VectorForm(vector_sizes=(8,), max_seq_length=12)


@pytest.mark.all
def test_a_stopped_run_ends_with_the_same_weights(
    finished, goldens, tmp_path, caplog
):
    folder = copied(finished, tmp_path)
    for path in (folder / "out").glob("model.ckpt-*"):
        if "ckpt-3." not in path.name:
            path.unlink()
    write_state(str(folder / "out"), ["model.ckpt-3"])
    micro_batches = {"gradient_accumulation_steps": 2, "do_eval": False}
    changes = NEGATIVES | micro_batches
    sentences.run(options_of(goldens, folder, given=("loss",), **changes))
    last = "out/model.ckpt-10"
    assert_same_checkpoint(folder / last, finished[0] / last)
    assert "metrics.json was written before step 10; --do_ev" in caplog.text


def test_fewer_flags_answer_as_trained(finished, goldens, tmp_path):
    folder, results = copied(finished, tmp_path), finished[1]
    again = options_of(
        goldens,
        folder,
        do_train=False,
        vocab_file=None,
        max_seq_length=128,
        init_checkpoint=None,
        bert_config_file=None,
    )
    found = sentences.run(again)["dev"]
    assert found == pytest.approx(results["dev"], rel=1e-5)
    assert scored_by_the_folder_alone(again) == pytest.approx(found)
    described = json.loads((folder / "out/task.json").read_text())
    assert described["max_seq_length"] == 12
    assert described["data"]["loss"] == "negatives"
    # The flags that say how texts are read, and what trains.
    assert {*described["data"]} == {
        *("loss", "similarity_scale", "task_name", "eval_task_name"),
        *("text_columns", "label_column", "separator", "quoted"),
        *("drop_missing", "evaluation"),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "cls"}, "^--pooling=cls,.*--pooling=mean"),
        ({"normalize": False}, "^--normalize=False"),
        ({"vector_sizes": (4,)}, "^--vector_sizes=4,.*--vector_sizes=8;"),
        ({"loss": "cosent"}, "^--loss=cosent,.*=negatives; .*--init_ch"),
        ({"similarity_scale": 10.0}, "^--similarity_scale=10.0,.*=20.0;"),
    ],
)
def test_a_folder_refuses_another_form(finished, goldens, changes, message):
    changes = NEGATIVES | changes
    options = options_of(goldens, finished[0], given=changes, **changes)
    with pytest.raises(ValueError, match=message):
        sentences.run(options)


def test_a_model_without_its_form_is_refused(finished, goldens, tmp_path):
    """Without it, vectors would be means of all numbers."""
    folder = copied(finished, tmp_path)
    (folder / "out/sentence_vectors.json").unlink()
    message = "without sentence_vectors.json.*put it back"
    with pytest.raises(FileNotFoundError, match=message):
        sentences.run(options_of(goldens, folder, **NEGATIVES))
    with pytest.raises(FileNotFoundError, match=message):
        bert.load(str(folder / "out"))


def test_a_folder_refuses_other_training_data(finished, goldens, tmp_path):
    folder = copied(finished, tmp_path)
    write_table(folder, count=24)
    with pytest.raises(ValueError, match="output_dir"):
        sentences.run(options_of(goldens, folder, **NEGATIVES))


@pytest.mark.all
def test_the_form_of_another_model_is_not_taken_over(
    finished, goldens, tmp_path, same_outputs, monkeypatch
):
    """Nor that of a run which was stopped before its first checkpoint."""
    write_table(tmp_path)
    first = {"init_checkpoint": str(finished[0] / "out")}

    def form_after(given=(), first=first, **changes):
        names = {*given} | ({"init_checkpoint"} & first.keys())
        sentences.run(options_of(goldens, tmp_path, given=names, **changes))
        return VectorForm.find(str(tmp_path / "out"))

    unusual = {"pooling": "cls", "vector_sizes": (4,)}
    elsewhere = {"do_train": False, **first}
    form = form_after(unusual, **unusual, **elsewhere)
    assert (form.pooling, form.vector_sizes) == ("cls", (4,))
    form = form_after((), {}, do_train=False, init_checkpoint=None)
    assert (form.pooling, form.vector_sizes) == ("cls", (4,))
    form = form_after(**elsewhere)  # the model's own
    assert (form.pooling, form.vector_sizes) == ("mean", (8,))
    assert form.max_seq_length == 12
    form = form_after((), {}, do_train=False)
    assert (form.pooling, form.vector_sizes) == ("mean", ())
    VectorForm(pooling="cls").write(str(tmp_path / "out"))
    # Once its training begins, the form is its own.
    monkeypatch.delattr(Trainer, "run_steps")
    with pytest.raises(AttributeError, match="run_steps"):
        form_after((), {})
    assert VectorForm.find(str(tmp_path / "out")).pooling == "mean"


def test_a_folder_of_another_kind_keeps_results(finished, goldens, tmp_path):
    folder = copied(finished, tmp_path)
    span_description(weights="model.ckpt-10").write(str(folder / "out"), None)
    metrics = (folder / "out/metrics.json").read_bytes()
    with pytest.raises(ValueError, match="the kind span, .*vectors"):
        sentences.run(options_of(goldens, folder, do_train=False))
    assert (folder / "out/metrics.json").read_bytes() == metrics


@pytest.mark.all
def test_the_best_weights_are_chosen_on_one_dev_set(
    finished, goldens, tmp_path, same_outputs
):
    folder = copied(finished, tmp_path)
    chosen = {"save_best": "mrr_at_10", "eval_every_steps": 5, **NEGATIVES}
    options = options_of(goldens, folder, num_train_epochs=3.0, **chosen)
    sentences.run(options)
    path = folder / "out/best_checkpoint.json"
    best = path.read_text()
    assert len(json.loads(best)["history"]) == 2
    dev = folder / "dev.tsv"
    rows = dev.read_text()
    (one, *_), (_, other, _) = (x.split("\t") for x in rows.splitlines()[1:3])
    further = f"{rows}{one}\t{other}\t1\n"  # of the same texts
    for changed in rows.replace("the", "store", 1), further:
        dev.write_text(changed)
        with pytest.raises(ValueError, match="another dev set.*--output_dir"):
            sentences.run(options)
        assert path.read_text() == best
    dev.write_text(rows)
    sentences.run(options)
    assert path.read_text() == best


def test_scores_without_an_order_are_told(goldens, tmp_path, caplog):
    rows = "text_a\ttext_b\tscore\nthe man\ta store\t1\nshe went\tit was\t1\n"
    (tmp_path / "train.tsv").write_text(rows)
    sentences.Run(options_of(goldens, tmp_path, do_eval=False))
    assert (
        "score 1. Without an order --loss=cosent learns nothing" in caplog.text
    )


@pytest.mark.all
def test_results_are_those_of_the_best_weights(goldens, tmp_path):
    write_table(tmp_path, 8)
    # Nothing is learned, and the first of equal weights is taken.
    options = options_of(
        goldens,
        tmp_path,
        learning_rate=1e-12,
        eval_every_steps=1,
        save_best="spearman",
    )
    sentences.run(options)
    written = (tmp_path / "out/eval_results.txt").read_text()
    assert "global_step = 1\n" in written
    # The choice stays also where other scores are computed.
    texts = options.texts.replace(evaluation="retrieval")
    asked = options.replace(do_train=False, eval_every_steps=0, texts=texts)
    asked = asked.replace(given=frozenset(["evaluation"]))
    assert "mrr_at_10" in sentences.run(asked)["dev"]
    written = (tmp_path / "out/eval_results.txt").read_text()
    assert "global_step = 1\n" in written


def test_an_export_gives_the_vectors_of_the_model(finished, tmp_path):
    folder = copied(finished, tmp_path) / "out"
    texts = ["the man went", "she said that it was a store and more"]
    loaded, served = bert.load(str(folder)), bert.load(export(folder))
    assert loaded.kind == served.kind == "vectors"
    expected = []
    for text in texts:
        ids = loaded.loaded.tokenizer.encode(text)[:10]
        batch = batch_of([[2, *ids, 3]])  # [CLS] and [SEP]
        expected.append(loaded.loaded.model.vectors(batch)[0])
    answers = served._answers(texts, 2)
    found = np.array([answer["vectors"] for answer in answers])
    np.testing.assert_array_equal(served.encode(texts, batch_size=2), found)
    with pytest.raises(ValueError, match="^vector_size: .*output_dir"):
        served.encode(texts, vector_size=8)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)


@pytest.mark.all
def test_a_teacher_is_followed(goldens, tmp_path, same_outputs, monkeypatch):
    texts = [{"text": f"{a} {b}"} for a in WORDS for b in WORDS[:4]]
    vectors = np.random.default_rng(0).normal(size=(len(texts), 6))
    vectors = np.asfortranarray(vectors, np.float32)
    np.save(tmp_path / "teacher.npy", vectors)
    scored = [
        {"text_a": "a", "text_b": b, "score": i} for i, b in enumerate(WORDS)
    ]
    for name, rows in (("train", texts), ("dev", scored)):
        write_json_lines(tmp_path / f"{name}.jsonl", rows)
    options = options_of(
        goldens,
        tmp_path,
        task_name="jsonl",
        teacher_vectors=str(tmp_path / "teacher.npy"),
        loss="teacher",
    )
    results = sentences.run(options)
    assert -1 <= results["dev"]["spearman"] <= 1
    assert scored_by_the_folder_alone(options) == pytest.approx(results["dev"])
    # Another machine may round the rotated vectors otherwise.
    fitted = teacher_vectors.fitted
    monkeypatch.setattr(teacher_vectors, "fitted", lambda *x: fitted(*x) + 1e-7)
    assert sentences.run(options) == results


def scored_by_the_folder_alone(options):
    """What --do_eval says with nothing but --output_dir and the data."""
    given = options.texts
    texts = TextOptions(data_dir=given.data_dir, dev_file=given.dev_file)
    train = TrainOptions(
        output_dir=options.find("output_dir"), num_train_steps=1
    )
    return sentences.run(
        SentenceOptions(
            given=frozenset(("do_eval", "output_dir", "data_dir")),
            do_eval=True,
            form=FormOptions(),
            texts=texts,
            finetuning=FinetuningOptions(train=train, device=DeviceOptions()),
        )
    )["dev"]


STS = {"task_name": "STS-B"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (NEGATIVES | {"train_batch_size": 22}, "--train_batch_size=22.*40 dis"),
        ({"vector_sizes": (64,)}, "--vector_sizes has 64.* 1 to 32"),
        ({"loss": "teacher"}, "--teacher_vectors and --loss=teacher"),
        ({"text_columns": ("text_a",)}, "--text_columns has 1 columns"),
        ({"label_column": "points"}, "'points'.*--label_column"),
        (STS | {"train_file": "my.tsv"}, "^--train_file=.*STS-B.*; leave it"),
        (STS | {"do_train": False, "dev_file": "my.tsv"}, "--eval_task_name="),
        (
            {"task_name": "QQP", "evaluation": "spearman"}
            | {"loss": "negatives", "given": frozenset(["evaluation"])},
            "^--evaluation=spearman.*but QQP has files of its own",
        ),
        (
            {"eval_task_name": "STS-B", "evaluation": "retrieval"}
            | {"given": frozenset(["evaluation"])},
            "^--evaluation=retrieval.*but STS-B has files of its own",
        ),
        ({"train_batch_size": 1}, "^--train_batch_size=1.*cosent.* 2 or more"),
        (STS | {"data_dir": ""}, "^STS-B: give .*--eval_data_dir"),
        (
            {"task_name": "QQP", "loss": "teacher", "teacher_vectors": "t.npy"},
            "^--task_name=QQP has pairs, for --loss=negatives",
        ),
        (NEGATIVES | {"group_by_length": True}, "--group_by_length"),
        ({"loss": "cosine", "similarity_scale": 5.0}, "--similarity_scale=5"),
    ],
)
def test_bad_input_is_refused_at_once(goldens, tmp_path, changes, message):
    write_table(tmp_path)
    with pytest.raises(ValueError, match=message):
        sentences.run(options_of(goldens, tmp_path, **changes))
    assert not list((tmp_path / "out").glob("model.ckpt-*"))


def test_tables_of_python_train_and_resume(goldens, tmp_path, same_outputs):
    rng = np.random.default_rng(2)
    train = [(f"{w} a", f"the {w}", float(rng.random())) for w in WORDS]
    folder = tmp_path / "model"
    write_released(goldens, folder)
    path = folder / "vocab.txt"
    tokens = path.read_text("utf-8").splitlines()
    cased = [t.title() if t.isalpha() and t not in WORDS else t for t in tokens]
    path.write_text("\n".join(cased) + "\n", "utf-8")
    arguments = {"train_batch_size": 4, "max_seq_length": 8}
    out = tmp_path / "out"
    first = bert.train_vectors(train, folder, out, dev=train, **arguments)
    again = bert.train_vectors(train, folder, out, dev=train, **arguments)
    assert first == again and [*first] == ["spearman"]
    assert not json.loads((out / "task.json").read_text())["do_lower_case"]
    with pytest.raises(ValueError, match="no setting 'los'"):
        bert.train_vectors(train, folder, out, los="cosine")

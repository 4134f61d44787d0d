"""--export_format=litert: files that compute what the model computes.

Expected values are those of the Keras model, and the answers of its run.
"""

import dataclasses
import functools
import json
import os
import pathlib
import shutil
import sys

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import bert
from data.calibration import Calibration
from data.squad.articles import SquadData
from data.squad.examples import read_examples
from data.text.vocabulary import load_vocab
from modeling import SentenceEncoder, VectorForm
from tests.support import fork_server, rounding, serving_support
from tests.support.model_folder_support import change_description, write_with
from tests.support.model_folders import description_of, write_questions
from tests.support.serving_support import INPUTS, TEXTS, finished_run
from tests.support.tiers import rare
from training.config.run_options import ExportOptions, ServingOptions
from training.export import litert, saved_model
from training.export.asking import named
from training.export.litert_answers import _Classifier, load
from training.export.predictor import Predictor
from training.export.task_signatures import TaskServing
from training.start.description import read

# Wide enough for the matrices to be nearly all of a file.
WIDE = {
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "intermediate_size": 2048,
    "initializer_range": 0.05,
}


def export(folder):
    return pathlib.Path(serving_support.export(folder, format="litert"))


def vectors_folder(goldens, folder):
    """Of sentence vectors, with prompts."""
    keras.utils.set_random_seed(1)
    write_with(goldens, folder, SentenceEncoder, initializer_range=0.3)
    prompts = {"query": "to be ", "other": "the "}
    VectorForm(prompts=prompts, default_prompt="query").write(str(folder))
    facts = {"max_seq_length": 24, "weights": "bert_model.ckpt", "data": {}}
    description_of("vectors", **facts).write(str(folder), None)


@pytest.fixture(scope="module")
def wide(goldens, tmp_path_factory):
    """The folder of a run, and its export."""
    folder = tmp_path_factory.mktemp("wide")
    finished_run(goldens, folder, "classification", True, **WIDE)
    return folder, export(folder)


@pytest.fixture(
    scope="module",
    params=[
        *("span", "vectors"),
        rare("tagging"),
        rare("multilabel"),
        rare("regression"),
    ],
)
def other(request, goldens, tmp_path_factory):
    """Kind, the folder of a run, and its export."""
    folder = tmp_path_factory.mktemp("other") / request.param
    if request.param == "span":
        write_questions(goldens, folder, "v2.0")
    elif request.param == "vectors":
        vectors_folder(goldens, folder)
    else:
        folder.mkdir()
        finished_run(goldens, folder, request.param)
    return request.param, folder, export(folder)


def runner(path):
    interpreter = Interpreter(str(path))
    return interpreter, interpreter.get_signature_runner("serving_default")


@functools.cache
def scores_of(folder, export):
    """Scores of the model and of each file: rows with holes and padding."""
    serving = saved_model.load(str(folder))
    exact = litert.function_of(serving)
    served = {name: runner(export / f"{name}.tflite")[1] for name in FILES}
    found = {name: [] for name in ("exact", *FILES)}
    rng = np.random.default_rng(3)
    for length in (1, 7, 24, 24, 9):
        mask = rng.integers(0, 2, [1, length], np.int32)
        mask[0, 0], mask[0, length - length // 4 :] = 1, 0
        ids = rng.integers(1, serving.config.vocab_size, [1, length], np.int32)
        segments = rng.integers(0, 2, [1, length], np.int32)
        row = dict(zip(INPUTS, (ids, mask, segments), strict=True))
        found["exact"].append(np.ravel(exact(*row.values())["scores"]))
        for name, function in served.items():
            found[name].append(np.ravel(function(**row)["scores"]))
    return {name: np.concatenate(x) for name, x in found.items()}


FILES = ("model", "model_int8")


def test_the_files_compute_what_the_model_computes(wide, other):
    for folder, made in wide, other[1:]:
        scores = scores_of(folder, made)
        exact = scores["exact"]
        np.testing.assert_allclose(
            scores["model"], exact, rtol=1e-4, atol=rounding.EQUAL
        )
        far = np.abs(scores["model_int8"] - exact)
        assert 0 < far.mean() < 0.05 * np.abs(exact).mean()


def test_the_file_of_8_bits_is_a_quarter(wide):
    sizes = [(wide[1] / f"{name}.tflite").stat().st_size for name in FILES]
    assert sizes[1] <= 0.28 * sizes[0]
    card = json.loads((wide[1] / "card.json").read_text())
    assert [x["bytes"] for x in card["files"].values()] == sizes
    assert card["labels"] == ["no", "yes"]
    # The table of words, too, which a lookup may leave as it was.
    table = [1200, WIDE["hidden_size"]]
    details = runner(wide[1] / "model_int8.tflite")[0].get_tensor_details()
    assert {x["dtype"] for x in details if [*x["shape"]] == table} == {np.int8}


def test_all_operations_are_built_in(wide, other):
    for made in wide[1], other[2]:
        for name in FILES:
            assert b"Flex" not in (made / f"{name}.tflite").read_bytes()
            interpreter, _ = runner(made / f"{name}.tflite")
            names = {x["op_name"] for x in interpreter._get_ops_details()}
            assert {"FULLY_CONNECTED", "SOFTMAX"} < names
            assert not {"CUSTOM"} & names


def questions(goldens):
    data = SquadData(str(goldens / "squad/dev-v2.0.json")).read()
    examples = read_examples(data)
    found = [(x.question_text, x.paragraph.context) for x in examples]
    long = "who " * 99, "the man " * 99
    return [*found, ("Who?", ""), ("", "A man."), long]


def test_a_file_answers_as_its_run(other, goldens):
    kind, folder, made = other
    ours, run = bert.load(made / "model.tflite"), bert.load(str(folder))
    assert (ours.kind, ours.loaded) == (kind, None)
    if kind == "vectors":
        for prompt in None, "other", "":
            pairs = [x.encode(TEXTS, prompt_name=prompt) for x in (ours, run)]
            rounding.assert_equal(*pairs)
        # Alone, too, the default prompt counts, whatever was asked before.
        answers = load(str(made / "model.tflite"))
        answers.encode(["a"], prompt_name="other")
        (answer,) = answers.predict(["a"])
        np.testing.assert_array_equal(answer["vectors"], ours.encode(["a"])[0])
        with pytest.raises(ValueError, match="no prompt 'x'; .* query, other"):
            ours.encode(["a"], prompt_name="x")
        with pytest.raises(ValueError, match="vector_size is 8, .*leave it"):
            ours.encode(["a"], vector_size=8)
        with pytest.raises(ValueError, match="without an index, .*; load"):
            ours.search(["a"], TEXTS)
        return
    odd = [*TEXTS, "x\u0301 a\ud800b"]
    texts = questions(goldens) if kind == "span" else odd
    for got, wanted in zip(ours.ask(texts), run.ask(texts), strict=True):
        assert_alike(got, wanted)


def assert_alike(got, wanted):
    """Asserts that answers differ in the rounding of numbers alone."""
    if isinstance(wanted, dict):
        assert got.keys() == wanted.keys()
        for name in wanted:
            assert_alike(got[name], wanted[name])
    elif isinstance(wanted, list):
        assert len(got) == len(wanted)
        for pair in zip(got, wanted, strict=True):
            assert_alike(*pair)
    elif isinstance(wanted, float):
        assert got == pytest.approx(wanted, abs=1e-4)
    else:
        assert got == wanted


def python(code, *arguments, **options):
    """What a new process prints, which says at the end if it has TensorFlow."""
    code += "\nprint('tensorflow' in sys.modules)"
    done = fork_server.cold_python("-c", code, *arguments, **options)
    *lines, has_tensorflow = done.stdout.splitlines()
    assert has_tensorflow == "False"
    return lines


PREDICT = """
import json, sys
import bert
model = bert.load(sys.argv[1])
print(json.dumps(model.predict(json.loads(sys.argv[2]))))
"""


@pytest.mark.all
def test_a_new_process_answers_without_tensorflow(wide):
    folder, made = wide
    texts = [[TEXTS[0], TEXTS[3]], [TEXTS[2], ""], ["", ""]]
    wanted = bert.load(str(folder)).predict([tuple(x) for x in texts])
    for place in made / "model.tflite", made.parent:
        (line,) = python(PREDICT, str(place), json.dumps(texts))
        answers = json.loads(line)
        if place.suffix:
            assert_alike(answers, wanted)
        assert [x["label"] for x in answers] == [x["label"] for x in wanted]


def test_the_program_for_lines_answers_without_tensorflow(wide):
    code = """
import runpy, sys
sys.argv[0] = "ask.py"
try:
    runpy.run_path("ask.py", run_name="__main__")
except SystemExit as end:
    assert not end.code
"""
    texts = "He left.\tHe is gone.\n"
    (line,) = python(code, f"--model={wide[1].parent}", input=texts)
    assert line.split("\t")[0] in ("no", "yes")


@pytest.mark.parametrize(
    ("kind", "thresholds", "pooling"),
    [
        ("classification", (0.3, 0.7), "max"),
        rare("multilabel", (0.2, 0.5, 0.9), "mean"),
        rare("multilabel", (0.2, 0.5, 0.9), "max"),
    ],
)
def test_windows_are_pooled_and_calibrated(
    goldens, tmp_path, kind, thresholds, pooling
):
    model = finished_run(goldens, tmp_path, kind)
    said = {"stride": 7, "pooling": pooling}
    said = change_description(tmp_path, **said) | said
    calibration = Calibration(3.0, thresholds)
    served = TaskServing(
        model,
        read(str(tmp_path)),
        load_vocab(str(tmp_path / "vocab.txt")),
        calibration,
    )

    class Exact:
        """The model itself in place of a file."""

        folder = str(tmp_path)
        card = {"calibration": dataclasses.asdict(calibration)}

        def scores(self, ids, segments):
            row = [[ids], [[1] * len(ids)], [segments]]
            rows = dict(zip(INPUTS, np.array(row, np.int32), strict=True))
            return model.logits(rows)[0].numpy()

    ours = _Classifier(Exact(), said).predict(TEXTS)
    wanted = Predictor(served.signatures).predict(TEXTS)
    for got, answer in zip(ours, wanted, strict=True):
        assert_alike(got, {name: answer[name] for name in got})
        assert_alike(named(kind, got), named(kind, answer))


def test_a_predictor_names_who_loads_such_a_file(wide):
    with pytest.raises(ValueError, match="is of LiteRT; load it by bert.load"):
        Predictor.load(str(wide[1]))


@pytest.mark.parametrize(
    "changes",
    [
        {"serving": ServingOptions(signatures=("text",))},
        {"serving": ServingOptions(like_original=True)},
        {"precision": "bfloat16"},
    ],
)
def test_what_files_of_ids_do_not_have_is_refused(tmp_path, changes):
    with pytest.raises(ValueError, match="=litert .* out --export_signatures"):
        ExportOptions(
            output_dir="x", export_dir=str(tmp_path), format="litert", **changes
        )


def test_other_kinds_are_refused_before_anything_is_written(goldens, tmp_path):
    finished_run(goldens, tmp_path, "choice")
    with pytest.raises(ValueError, match="=litert is for .* the kind choice"):
        export(tmp_path)
    assert not os.listdir(tmp_path / "export")


@pytest.mark.all
def test_versions_of_both_formats_are_not_mixed(wide):
    with pytest.raises(ValueError, match="=saved_model.* another"):
        serving_support.export(wide[0])


def test_a_damaged_file_is_refused(wide, tmp_path):
    shutil.copytree(wide[1], tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model_int8.tflite"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    message = "is damaged.*export the model"
    with pytest.raises(ValueError, match=f"int8.tflite {message}"):
        bert.load(str(tmp_path))
    (tmp_path / "card.json").write_text("{")
    with pytest.raises(ValueError, match=f"card.json {message}"):
        bert.load(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no.tflite: no such LiteRT"):
        bert.load(str(tmp_path / "no.tflite"))


def test_a_missing_runtime_is_named(wide, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(ValueError, match="pip install -r requirements-litert"):
        bert.load(str(wide[1]))


def test_an_export_has_fixed_settings(wide):
    with pytest.raises(ValueError, match="fixed settings; leave out max_seq_l"):
        bert.load(str(wide[1]), max_seq_length=16)

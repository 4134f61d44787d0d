import dataclasses
import json

import pytest

import modeling
from modeling.checkpoints import vector_form
from modeling.checkpoints.vector_form import VectorForm
from tests.support.conversion_support import convert
from tests.support.model_folders import write_released

TYPES = ("Transformer", "Pooling", "Normalize")
MEAN = {"pooling_mode": "mean"}


def write(folder, pooling=MEAN, types=TYPES, texts=None, config=None):
    """A folder as their releases write it."""
    paths = ("", "1_Pooling", "2_Normalize")
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"a.models.{name}"}
        for i, (path, name) in enumerate(zip(paths, types, strict=False))
    ]
    (folder / "1_Pooling").mkdir()
    for name, content in {
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": texts or {},
        "config_sentence_transformers.json": config or {},
    }.items():
        (folder / name).write_text(json.dumps(content))
    return str(folder)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
    ],
)
def test_pooling_of_old_and_new_releases(tmp_path, pooling, expected):
    form = VectorForm.find(write(tmp_path, pooling))
    assert (form.pooling, form.normalize) == (expected, True)


def test_prompts_and_length_are_kept(tmp_path):
    folder = write(
        tmp_path,
        texts={"max_seq_length": 96},
        config={
            "prompts": {"query": "query: ", "document": ""},
            "default_prompt_name": "query",
        },
    )
    form = VectorForm.find(folder)
    assert form.prompt() == "query: "
    # sentence-transformers takes it for documents, before any `passage`.
    assert form.usual(("document", "passage")) == "document"
    assert form.prompt("document") == ""
    assert vector_form.read_max_seq_length(folder) == 96


def test_length_of_new_releases_is_the_tokenizers(tmp_path):
    folder = write(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"model_max_length": 77}))
    assert vector_form.read_max_seq_length(folder) == 77
    path.write_text(json.dumps({"model_max_length": 10**30}))  # = no limit
    assert vector_form.read_max_seq_length(folder) is None


def test_conversions_keep_the_longest_text(goldens, tmp_path):
    ours, theirs, again, last = (str(tmp_path / name) for name in "abcd")
    write_released(goldens, tmp_path / "a", "bert_config.json")
    VectorForm(max_seq_length=20).write(ours)
    convert(ours, theirs)
    assert vector_form.read_max_seq_length(theirs) == 20
    # What a run said is older than what their file says.
    task = {"kind": "vectors", "weights": ".", "model": {}, "data": {}}
    task |= {"task_name": "tsv", "do_lower_case": True, "max_seq_length": 32}
    for target in again, last:
        convert(theirs, target)
        assert VectorForm.find(target) == VectorForm(max_seq_length=20)
        for folder in theirs, target:
            assert modeling.load(folder).max_seq_length == 20
        (tmp_path / "b" / "task.json").write_text(json.dumps(task))


TWO_POOLINGS = {"pooling_mode_cls_token": 1, "pooling_mode_max_tokens": 1}
NO_PROMPT = MEAN | {"include_prompt": False}
QUERY = {"prompts": {"query": "q: "}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"types": (*TYPES[:2], "Dense")}, "Pooling, Dense"),
        ({"types": ("Pooling", "Transformer")}, "Pooling, Transformer"),
        ({"pooling": {"pooling_mode": "lasttoken"}}, "lasttoken"),
        ({"pooling": TWO_POOLINGS}, "cls and max"),
        ({"pooling": NO_PROMPT, "config": QUERY}, "include_prompt"),
        ({"config": QUERY | {"default_prompt_name": "nope"}}, "'nope'.*query"),
        ({"texts": {"do_lower_case": True}}, "do_lower_case"),
    ],
)
def test_what_is_not_known_is_refused_by_its_name(tmp_path, changes, message):
    folder = write(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        VectorForm.find(folder)


def test_damaged_modules_are_refused(tmp_path):
    folder = write(tmp_path)
    no_string = '[{"type": 1, "path": ""}]'
    for damaged in ("[", "{}", '[{"type": "a"}]', no_string):
        (tmp_path / "modules.json").write_text(damaged)
        with pytest.raises(ValueError, match="modules.json.* is damaged"):
            VectorForm.find(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"prompts": ["a"]}},
        {"config": {"prompts": {"query": 5}}},
        {"config": {"vector_sizes": 8}},
        {"pooling": {"pooling_mode": [1, 2]}},
    ],
)
def test_values_of_another_type_are_damage(tmp_path, changes):
    folder = write(tmp_path, **changes)
    with pytest.raises(ValueError, match="is damaged .*get the folder again"):
        VectorForm.find(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"normalize": "false"},
        {"vector_sizes": ["8"]},
        {"prompts": ["query"]},
        {"default_prompt": "query", "prompts": {"query": 3}},
    ],
)
def test_a_form_with_values_of_another_type_is_damaged(tmp_path, changes):
    facts = dataclasses.asdict(VectorForm()) | changes
    (tmp_path / "sentence_vectors.json").write_text(json.dumps(facts))
    with pytest.raises(ValueError, match="sentence_vectors.json is damaged or"):
        VectorForm.find(str(tmp_path))


def test_a_form_without_its_values_is_damaged(tmp_path):
    (tmp_path / "sentence_vectors.json").write_text("{}")
    with pytest.raises(ValueError, match="damaged: no pooling, normalize, .*;"):
        VectorForm.find(str(tmp_path))


def test_what_is_written_is_read_again(tmp_path):
    form = VectorForm(
        pooling="cls",
        normalize=False,
        vector_sizes=(16, 8),
        prompts={"query": "query: ", "passage": "passage: "},
        default_prompt="passage",
        max_seq_length=64,
    )
    vector_form.write_theirs(str(tmp_path), form, 32)
    assert VectorForm.find(str(tmp_path)) == form
    assert vector_form.read_max_seq_length(str(tmp_path)) == 64
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert [module["type"] for module in modules] == [
        "sentence_transformers.models.Transformer",
        "sentence_transformers.models.Pooling",
    ]
    pooling = json.loads((tmp_path / "1_Pooling/config.json").read_text())
    assert pooling["word_embedding_dimension"] == 32

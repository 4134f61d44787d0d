"""Every study declares what it needs; its numbers are the publication's."""

import json
import pathlib
import re
import shlex

import pytest

import studies
from data import settings
from data.pretraining.data_options import PretrainingDataOptions
from modeling import objectives
from modeling.choices import LAYERS_OF_MIXES, OBJECTIVES
from modeling.config import BertConfig
from studies.engine import commands, plan
from studies.engine.measures import MEASURES
from studies.engine.scales import PAPER, SCALES
from studies.engine.study_options import StudyData, StudyOptions
from tests.support import flags_support
from training.config.finetuning_options import ClassifierOptions
from training.config.pretraining_options import PretrainingOptions
from training.config.squad_options import SquadOptions

pytestmark = pytest.mark.all

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOST_LINES = 79
# Devlin et al., arXiv:1810.04805v2, as printed: Table 5 (MNLI-m, QNLI, MRPC,
# SST-2, SQuAD), Table 6 (layers, hidden size, heads: perplexity, MNLI-m, MRPC,
# SST-2), Table 7 (CoNLL-2003 dev F1), Table 8 ([MASK], same, random: MNLI, NER
# fine-tuned, NER feature-based). Figure 5 has no numbers. ALBERT
# (arXiv:1909.11942), Table 5: SQuAD 2.0, RACE, average. ELECTRA
# (arXiv:2003.10555): small models of Table 1, base models of Table 5.
TABLES = {
    "pretraining_tasks": {
        "bert": "84.4 88.4 86.7 92.7 88.5",
        "no_nsp": "83.9 84.9 86.5 92.6 87.9",
        "left_to_right": "82.1 84.3 77.5 92.1 77.8",
        "left_to_right_bilstm": "82.1 84.1 75.7 91.6 84.9",
    },
    "model_size": {
        "3 768 12": "5.84 77.9 79.8 88.4",
        "6 768 3": "5.24 80.6 82.2 90.7",
        "6 768 12": "4.68 81.9 84.8 91.3",
        "12 768 12": "3.99 84.4 86.7 92.9",
        "12 1024 16": "3.54 85.7 86.9 93.3",
        "24 1024 16": "3.23 86.6 87.8 93.7",
    },
    "features": {
        "fine_tuning": "96.4",
        "embeddings": "91.0",
        "second_to_last": "95.6",
        "last": "94.9",
        "weighted_last_four": "95.9",
        "concat_last_four": "96.1",
        "weighted_all": "95.5",
    },
    "masking": {
        "80 10 10": "84.2 95.4 94.9",
        "100 0 0": "84.3 94.9 94.0",
        "80 0 20": "84.1 95.2 94.6",
        "80 20 0": "84.4 95.2 94.7",
        "0 20 80": "83.7 94.8 94.6",
        "0 0 100": "83.6 94.9 94.6",
    },
    "pretraining_steps": {},
    "sentence_objective": {
        "none": "78.1 61.7 79.0",
        "next_sentence": "77.2 62.3 79.2",
        "sentence_order": "80.0 64.0 80.1",
    },
    "objectives": {"masked_lm": "75.1 82.2", "replaced_tokens": "79.9 85.0"},
}
DATA = StudyData(conllu_dir="a", glue_dir="b", squad_dir="c")


def key(name, row):
    """How `TABLES` calls a row."""
    if name == "model_size":
        sizes = ("num_hidden_layers", "hidden_size", "num_attention_heads")
        return " ".join(str(row.paper_sizes[size]) for size in sizes)
    if name == "masking":
        mask = row.masking["mask_token_prob"]
        random = row.masking["random_token_prob"]
        shares = mask, 1 - mask - random, random
        return " ".join(f"{100 * abs(share):.0f}" for share in shares)
    return row.name


@pytest.fixture(params=studies.names())
def name(request):
    return request.param


@pytest.fixture
def study(name):
    return studies.get(name)


def test_a_study_is_a_short_file(name):
    lines = (ROOT / f"studies/{name}.py").read_text("utf-8").splitlines()
    assert len(lines) <= MOST_LINES


def test_the_papers_numbers(name, study):
    numbers = {key(name, row): [*row.paper] for row in study.rows if row.paper}
    assert numbers == {
        row: [float(x) for x in line.split()]
        for row, line in TABLES[name].items()
    }


def test_rows_and_measures_fit_each_other(study):
    names = [row.name for row in study.rows]
    assert len(set(names)) == len(names) > 1
    titles = [row.title for row in study.rows]
    assert len(set(titles)) == len(titles)
    assert all(re.fullmatch(r"\w+", name) for name in names)
    assert study.base in study.rows_at("small")
    assert set(study.measures) <= MEASURES.keys()
    for measure, column in study.nearest.items():
        assert measure in study.measures
        assert column in study.columns
        assert study.base.paper
    for row in study.rows:
        assert len(row.paper) in (0, len(study.columns))
        source = study.row(row.source)
        assert source.source == source.name
        # What it is trained on must be that of the encoder it takes.
        for field in ("records", "masking", "pretraining", "sizes"):
            assert getattr(row, field) == getattr(source, field)
        assert any(MEASURES[m].applies(row) for m in study.measures)
    settings_of_rows = [
        json.dumps(vars(row) | {"name": 0, "title": 0, "paper": 0})
        for row in study.rows
    ]
    assert len(set(settings_of_rows)) == len(names)


def test_every_flag_of_its_pretrainings_exists(study):
    of_masks = settings.names_of(PretrainingDataOptions)
    of_models = {*BertConfig(vocab_size=99).to_dict()}
    for row in study.rows:
        assert {*row.records, *row.masking} <= of_masks
        assert {*row.pretraining} <= settings.names_of(PretrainingOptions)
        assert {*row.paper_sizes} <= of_models


@pytest.mark.parametrize("scale", SCALES)
def test_its_programs_take_the_settings(study, scale, tmp_path, name):
    given = {"study": name, "output_dir": str(tmp_path)}
    planned = plan.Plan(study, StudyOptions(**given, scale=scale, data=DATA))
    jobs = list(planned.jobs())
    assert len({job.folder for job in jobs}) == len(jobs)
    paths = {"bert_config_file": "x", "vocab_file": "x", "output_dir": "x"}
    paths["input_file"] = "x"
    model = {"init_checkpoint": "x"}
    for job in jobs:
        sizes = planned.sizes_of(job.row, 99)
        layers = BertConfig.from_dict(sizes).num_hidden_layers
        if job.run == "pretraining":
            flags = planned.pretraining_flags(job.row)
            settings.make(PretrainingOptions, flags | paths)
            settings.make(PretrainingDataOptions, plan.record_flags(job.row))
            settings.make(PretrainingDataOptions, job.row.masking)
        elif job.run != "held_out":
            flags = planned.finetuning_flags(job)
            own = {"task_name": "conll", "data_dir": "x"}
            program = ClassifierOptions
            if job.run == "spans":
                own = {"train_file": "x", "predict_file": "x"}
                program = SquadOptions
            assert {*flags} <= settings.names_of(program)
            settings.make(program, flags | paths | model | own)
            mix = flags.get("feature_based")
            assert not mix or LAYERS_OF_MIXES[mix] <= layers


def test_small_scales_take_an_hour_at_most(study, tmp_path, name, monkeypatch):
    minilm = {"num_hidden_layers": 6, "hidden_size": 384}
    sizes = property(lambda data: minilm if data.init_checkpoint else {})
    monkeypatch.setattr(StudyData, "model_sizes", sizes)
    data = DATA
    if study.takes_model:
        data = StudyData(conllu_dir="a", init_checkpoint="d")
    options = StudyOptions(study=name, output_dir=str(tmp_path), data=data)
    jobs = plan.Plan(study, options).jobs()
    assert 240 < sum(job.seconds for job in jobs if job.is_asked) < 3600


def test_commands_at_the_papers_scale(study, name):
    lines = list(commands.paper_commands(study, name))
    assert "# Cost: " in lines[-1]
    for row in study.rows_at(PAPER):
        some = list(commands.paper_commands(study, name, [row.name]))
        assert {*some[:-1]} <= {*lines}
        titles = [x for x in some if x.endswith("the columns of the paper.")]
        assert titles == [f"\n# {row.title}: the columns of the paper."]
        assert sum(x.endswith(": pretraining.") for x in some) == 1
    written = [shlex.split(line) for line in lines if line[:6] == "python"]
    outputs = [
        word.partition("=")[2]
        for words in written
        for word in words
        if word.startswith("--output_")
    ]
    assert len(set(outputs)) == len(outputs)
    for program in {words[1].removesuffix(".py") for words in written}:
        mine = [[x[2:], True] for x in written if x[1] == f"{program}.py"]
        flags_support.parse(program, mine, ROOT)
    for words in written:
        if words[1] == "run_pretraining.py":
            given = [w[12:] for w in words if w.startswith("--objective=")]
            objective = objectives.get((given or [OBJECTIVES[0]])[0])
            assert objective.reads_masks == ("--masking=dynamic" in words)
    runs = [[w for w in x if "output" not in w] for x in written]
    assert all(runs.count(x) == 1 for x in runs if x[1] == "run_classifier.py")
    # What is read was written by a command before, or is the user's.
    for words in written:
        for word in words:
            flag, _, path = word.partition("=")
            if flag in ("--input_file", "--continue_from") and name in path:
                assert path in outputs
            if flag == "--init_checkpoint":
                assert path.rpartition("/")[0] in outputs


def test_the_cost_of_base():
    # Six operations for each weight of the blocks and each wordpiece; attention
    # and the vocabulary add less than half.
    base = studies.get("pretraining_tasks").base
    assert base in studies.get("pretraining_tasks").rows_at(PAPER)
    tokens = 256 * (900_000 * 128 + 100_000 * 512)
    blocks = 6 * 12 * (12 * 768**2) * tokens
    assert blocks < commands.pretraining_flops(base) < 1.5 * blocks

"""Holds the structure: who may import whom, where flags end, file length.

        programs   benchmarks   demo   tests
              \\        |        /     /
               -->  training  <-------
                     /      \\
                  data     modeling       never import each other
"""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Inside a folder a file may import only those before it.
ORDER = {
    "data": [
        "files",
        "locks",
        "json_files",
        "tfrecord",
        "progress",
        "vocabulary",
        "tokenization",
        "characters_in_graph",
        "tokenization_in_graph",
        "vocabulary_building",
        "records",
        "record_reading",
        "record_damage",
        "packing",
        "text_features",
        "vector_files",
        "attention_picture",
        "packing_in_graph",
        "tagging_in_graph",
        "input_pipeline",
        "length_batches",
        "pretraining.options",
        "pretraining.report",
        "pretraining.instances",
        "pretraining.examples",
        "pretraining.in_memory",
        "pretraining.sentences",
        "pretraining.tfds_reading",
        "pretraining.tfds_text",
        "pretraining.corpus",
        "pretraining.pairs",
        "pretraining.masking",
        "pretraining.disk_shuffle",
        "pretraining.shards",
        "pretraining.plan",
        "pretraining.publishing",
        "pretraining.workers",
        "pretraining.streaming",
        "pretraining.beam_runner",
        "pretraining.dynamic_masking",
        "pretraining.queries",
        "pretraining.__init__",
        "metrics",
        "tasks.rows",
        "tasks.examples",
        "tasks.task",
        "tasks.glue",
        "tasks.xnli",
        "tasks.swag",
        "tasks.race",
        "tasks.conll",
        "tasks.user",
        "tasks.tfds",
        "tasks.__init__",
        "tagging",
        "feature_report",
        "features",
        "record_reuse",
        "task_records",
        "squad.articles",
        "squad.examples",
        "squad.windows",
        "squad.rows",
        "squad.records",
        "squad.final_text",
        "squad.candidates",
        "squad.answers",
        "squad.windows_in_graph",
        "squad.answers_in_graph",
        "squad.prediction_files",
        "squad.scoring",
        "squad.page",
        "squad.ensembling",
        "squad.ensemble_files",
        "squad.__init__",
        "__init__",
    ],
    "modeling": [
        "choices",
        "huggingface_config",
        "config",
        "fusion",
        "layers",
        "recomputation",
        "embeddings",
        "attention",
        "transformer",
        "bert",
        "pooling",
        "heads",
        "losses",
        "layer_mix",
        "bilstm",
        "checkpoints.tf1",
        "checkpoints.huggingface",
        "checkpoints.assign",
        "checkpoints.__init__",
        "pretraining_model",
        "task_models",
        "span_model",
        "__init__",
    ],
    "training": [
        "options",
        "finetuning_options",
        "pretraining_options",
        "extraction_options",
        "preemption",
        "program",
        "flags",
        "finetuning_flags",
        "workers",
        "precision",
        "strategy",
        "session",
        "rates",
        "optimization",
        "lamb",
        "loss_scale",
        "checkpointing",
        "head_labels",
        "first_weights",
        "events",
        "custom_gradients",
        "evaluation",
        "steps",
        "schedule",
        "resuming",
        "loop",
        "runs",
        "extractor",
        "extraction",
        "description",
        "conversion",
        "pretraining_input",
        "pretraining",
        "scoring",
        "finetuning",
        "selection",
        "tables",
        "checkpoint_table",
        "results",
        "feature_based",
        "classification",
        "provenance",
        "feature_table",
        "trial_choice",
        "trials",
        "suite",
        "serving_rows",
        "serving",
        "span_serving",
        "pretraining_serving",
        "requests",
        "model_card",
        "export",
        "predictor",
        "answering",
        "question_answering",
        "__init__",
    ],
}
MAY_IMPORT = {
    "data": {"data"},
    "modeling": {"modeling"},
    "training": {"training", "data", "modeling"},
}
LIBRARY = sorted(
    path for folder in ORDER for path in (ROOT / folder).rglob("*.py")
)
PROGRAMS = sorted(ROOT.glob("*.py"))


def module_of(path: pathlib.Path) -> str:
    """data/files.py -> data.files."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports_of(path: pathlib.Path) -> set[str]:
    """Full names of everything a file imports; `from a import b` is a.b."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def ours(names: set[str]) -> set[str]:
    """The modules of this project among imported names, as in ORDER."""
    modules = {f"{folder}.{m}" for folder in ORDER for m in ORDER[folder]}
    found = set()
    for name in names:
        if name.split(".")[0] not in ORDER:
            continue
        candidates = [name, name.rpartition(".")[0]]
        candidates += [f"{c}.__init__" for c in candidates]
        (module, *_) = [c for c in candidates if c in modules] or [name]
        found.add(module)
    return found


def test_every_file_has_its_place_in_the_order():
    listed = {f"{folder}.{m}" for folder in ORDER for m in ORDER[folder]}
    assert {module_of(path) for path in LIBRARY} == listed


@pytest.mark.parametrize("path", LIBRARY, ids=module_of)
def test_imports_go_one_way(path):
    folder, _, module = module_of(path).partition(".")
    before = ORDER[folder][: ORDER[folder].index(module)]
    for name in ours(imports_of(path)):
        target, _, imported = name.partition(".")
        assert target in MAY_IMPORT[folder], f"{path} imports {name}"
        if target == folder:
            assert imported in before, f"{path} imports {name}, listed later"


def test_nothing_imports_a_program():
    programs = {path.stem for path in PROGRAMS}
    for path in ROOT.rglob("*.py"):
        if any(part.startswith(".venv") for part in path.parts):
            continue
        first_parts = {name.split(".")[0] for name in imports_of(path)}
        assert not first_parts & programs, path


def test_flags_end_at_the_programs():
    for path in LIBRARY:
        if module_of(path) in (
            "training.flags",
            "training.finetuning_flags",
            "training.program",
        ):
            continue
        assert not any(
            name.startswith("absl.flags") for name in imports_of(path)
        ), path


def test_data_knows_no_model():
    for path in LIBRARY:
        if path.is_relative_to(ROOT / "data"):
            assert not any(
                name.split(".")[0] == "keras" or "tf_keras" in name
                for name in imports_of(path)
            ), path


def test_programs_and_flags_load_no_tensorflow():
    # It takes seconds, and so does Keras, which loads scikit-learn: `--help`
    # and wrong flags are answered without. `main` imports what computes.
    code = (
        "import runpy, sys\n"
        "for path in sys.argv[1:]: runpy.run_path(path)\n"
        "print({'tensorflow', 'keras', 'sklearn'} & sys.modules.keys())"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code, *PROGRAMS],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert loaded.stdout == "set()\n", loaded.stderr


def test_importing_a_program_defines_no_flag():
    # absl refuses a flag that is defined twice: two programs could never be
    # used in one process.
    for path in PROGRAMS:
        tree = ast.parse(path.read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                assert "DEFINE" not in ast.unparse(node), path


@pytest.mark.parametrize("path", LIBRARY + PROGRAMS, ids=module_of)
def test_files_stay_readable(path):
    assert len(path.read_text("utf-8").splitlines()) <= 400

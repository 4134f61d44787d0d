"""The commands of a study at the paper's size, and what they cost."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modeling.choices import OBJECTIVES
from modeling.config import BertConfig
from studies.engine.declaring import Row, Study
from studies.engine.plan import training_flops
from studies.engine.scales import PAPER

# The paper's section A.2: two phases.
_BATCH, _STEPS = 256, 1_000_000
# Length -> predictions of an example, steps, flag of run_pretraining.py.
_PHASES = {
    128: (20, 900_000, "--stop_at_step=900000"),
    512: (77, 100_000, "--continue_from={}-128"),
}
_SUSTAINED = 1e14  # operations per second of the device that is named below
_CLASSIFIER = "run_classifier.py --do_train --do_eval"
_GLUE = (
    f"{_CLASSIFIER} --task_name={{0}} --data_dir={{1}} --train_batch_size=32 "
    "--num_train_epochs=3 --num_trials=5 "
    "--trial_learning_rates=5e-5,4e-5,3e-5,2e-5"
)
_NER = (
    f"{_CLASSIFIER} --task_name=conll --data_dir=conll2003 --document_context "
    "--num_trials=5"
)
_SQUAD = (
    "run_squad.py --do_train --do_predict --train_file=squad/train-{0}.json "
    "--predict_file=squad/dev-{0}.json --train_batch_size=32 "
    "--learning_rate=5e-5"
)
# Column of a paper's table -> its command; the others are tasks of GLUE.
_TASKS = {
    "SQuAD F1": _SQUAD.format("v1.1") + " --num_train_epochs=3",
    "SQuAD 2.0 F1": _SQUAD.format("v2.0")
    + " --version_2_with_negative --num_train_epochs=2",
    "RACE": f"{_CLASSIFIER} --task_name=race --data_dir=RACE "
    "--max_seq_length=512",
    "NER, dev F1": _NER,
    "NER fine-tuned": _NER,
    "NER features": f"{_NER} --feature_based=concat_last_four "
    "--learning_rate=3e-3",
}
_NO_RUN = ("mean", "LM (ppl)")  # from other columns, from the pretraining


def paper_commands(
    study: Study, name: str, asked: Sequence[str] = ()
) -> Iterator[str]:
    """Yields the lines of a shell script: a study at the paper's size.

    `asked` are names of rows, () = all.
    """
    yield f"# {study.title}: {study.source}."
    yield "# corpus/*.txt has a sentence on each line, and a blank line between"
    yield "# documents; the paper's has 3.3 billion words. vocab.txt is that of"
    yield "# a released model, or made by build_vocab.py."
    known = study.rows_at(PAPER)
    rows = [row for row in known if not asked or row.name in asked]
    sources = {row.source for row in rows}
    pretrained = [row for row in known if row.name in sources]
    lines = []
    for row in pretrained:
        lines += [f"\n# {row.title}: pretraining."]
        lines += _pretraining(study, row, name)
    yield from dict.fromkeys(lines)  # rows may have the same records
    for row in rows:
        yield f"\n# {row.title}: the columns of the paper."
        columns = ("GLUE" if c.startswith("GLUE") else c for c in study.columns)
        for column in dict.fromkeys(columns):
            if column not in _NO_RUN:
                yield _finetuning(study, row, column, name)
    total = sum(map(pretraining_flops, pretrained))
    days = total / _SUSTAINED / 86400
    yield (
        f"\n# Cost: {total:.1e} floating-point operations of pretraining, "
        f"{days:.1f} days on\n# a device that sustains 1e14 a second. The "
        "paper's Base took 4 days on 16 TPU chips."
    )


def pretraining_flops(row: Row) -> float:
    """Returns the operations of a row's pretraining, both phases."""
    looks_back = row.pretraining.get("objective") == "left_to_right"
    total = 0.0
    for length, (predictions, steps, _) in _PHASES.items():
        share = 1.0 if looks_back else predictions / length
        of_wordpiece = training_flops(_config(row), length, share)
        total += of_wordpiece * (steps * _BATCH * length)
    return total


def _config(row: Row) -> dict[str, Any]:
    """The paper's Base, or the sizes of the row."""
    base = BertConfig(vocab_size=30522, type_vocab_size=2)
    return base.to_dict() | dict(row.paper_sizes)


def _pretraining(study: Study, row: Row, name: str) -> Iterator[str]:
    """The commands that write a row's records and pretrain it, in two phases.

    Both lengths have one schedule.
    """
    config_file = "configs/uncased_L-12_H-768_A-12.json"
    if row.paper_sizes:
        config_file = f"{name}/{row.name}.json"
        config = shlex.quote(json.dumps(_config(row)))
        yield f"mkdir -p {name}; echo {config} > {config_file}"
    own = {**row.masking, **row.pretraining}
    objective = row.pretraining.get("objective", OBJECTIVES[0])
    if objective == OBJECTIVES[0]:
        own["masking"] = "dynamic"
    if objective != "left_to_right":  # it masks nothing
        own["vocab_file"] = "vocab.txt"
    parts, interval = _checkpoints(study, row)
    if parts > 1:
        own |= {"keep_checkpoint_max": 0, "save_checkpoints_steps": interval}
    place = f"{name}/{row.name}"
    for length, (predictions, _, phase) in _PHASES.items():
        records = f"{name}/{row.records_name}-{length}.tf_record@256"
        sizes = f"--max_seq_length={length}"
        sizes += f" --max_predictions_per_seq={predictions}"
        yield (
            "python create_pretraining_data.py --input_file='corpus/*.txt' "
            f"--output_file={records} --vocab_file=vocab.txt {sizes} "
            f"--masking=dynamic --num_processes=16{_flags(row.records)}"
        )
        yield (
            f"python run_pretraining.py --do_train --input_file={records} "
            f"--bert_config_file={config_file} --output_dir={place}-{length} "
            f"{sizes} --train_batch_size={_BATCH} --learning_rate=1e-4 "
            f"--num_train_steps={_STEPS} --num_warmup_steps=10000 "
            f"--precision=bfloat16{_flags(own)} {phase.format(place)}"
        )


def _checkpoints(study: Study, row: Row) -> tuple[int, int]:
    """How many checkpoints of a row's pretraining are measured, and steps."""
    parts = len({r.share for r in study.rows if r.source == row.source})
    return parts, -(-_STEPS // parts)


def _finetuning(study: Study, row: Row, column: str, name: str) -> str:
    """The command of a column of the paper's table."""
    task = column.removesuffix("-m")
    folder = "glue_data" if task == "GLUE" else f"glue_data/{task}"
    command = _TASKS.get(column, _GLUE).format(task, folder)
    parts, interval = _checkpoints(study, row)
    step = min(_STEPS, round(row.share * parts) * interval)
    source = f"{name}/{row.source}-{512 if step > _PHASES[128][1] else 128}"
    place = "".join(c if c.isalnum() else "_" for c in column)
    return (
        f"python {command}{_flags(row.finetuning)} "
        f"--vocab_file=vocab.txt --bert_config_file={source}/bert_config.json "
        f"--init_checkpoint={source}/model.ckpt-{step} "
        f"--output_dir={name}/{row.name}-{place}"
    )


def _flags(values: Mapping[str, Any]) -> str:
    """Flags as on a command line, with a space before each."""
    texts = {n: "false" if x is False else x for n, x in values.items()}
    return "".join(f" --{name}={text}" for name, text in texts.items())

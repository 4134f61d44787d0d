r"""Compares logits with those of Hugging Face's transformers, both ways.

  python benchmarks/huggingface_agreement.py --minilm=all-MiniLM-L6-v2

transformers and PyTorch have a virtual environment of their own, made the first
time (about 1 GB; several where pip only finds PyTorch's build for GPUs). Random
models of every kind go from here to there by convert_checkpoint.py's code, and
from there to here as --init_checkpoint takes them; so does the folder --minilm,
if given. Fails above a difference of 1e-4.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from absl import app, flags

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from data.text.tokenization import FullTokenizer  # noqa: E402
from modeling import (  # noqa: E402
    BertConfig,
    BertModel,
    PretrainingModel,
    SpanModel,
    TaskModel,
    checkpoints,
)
from training.model_files import conversion  # noqa: E402

FLAGS = flags.FLAGS
PACKAGES = ("torch==2.13.0", "transformers==5.23.0", "numpy", "safetensors")
VOCAB = ROOT / "tests/goldens/vocab.txt"
TOLERANCE = 1e-4
NUM_LABELS = 3
TEXTS = (
    "The man went to the store, didn't he?",
    "Ünaffable naïveté — résumé 3.14 北京 🙂",
    "a" * 50 + " MIXED Case\ttabs",
)


def define_flags():
    """The other environment, and a real model."""
    flags.DEFINE_string(
        "environment",
        str(ROOT / "build/huggingface"),
        "Virtual environment of transformers; made if it is not there.",
    )
    flags.DEFINE_string("minilm", None, "A folder of Hugging Face with BERT.")


def config():
    """Three blocks x 32, the tanh form of gelu."""
    return BertConfig.from_json_file(
        str(ROOT / "tests/goldens/bert_config.json")
    )


def models(config):
    """Name of transformers' class -> a model of ours."""
    return {
        "BertForPreTraining": PretrainingModel(config),
        "BertForSequenceClassification": TaskModel(
            config, "classification", NUM_LABELS
        ),
        "BertForTokenClassification": TaskModel(config, "tagging", NUM_LABELS),
        "BertForMultipleChoice": TaskModel(config, "choice", NUM_LABELS),
        "BertForQuestionAnswering": SpanModel(config),
    }


def inputs(vocab_size, choices=1):
    """A batch with padding and two segments, int32 [3, choices * 40]."""
    rng = np.random.default_rng(7)
    shape = (3, choices, 40)
    lengths = rng.integers(4, 41, shape[:2])
    lengths[0, 0] = 40
    places = np.arange(40)
    mask = places < lengths[..., None]
    batch = {
        "input_ids": rng.integers(5, vocab_size, shape) * mask,
        "input_mask": mask,
        "segment_ids": (places >= lengths[..., None] // 2) & mask,
    }
    return {k: v.reshape(3, -1).astype(np.int32) for k, v in batch.items()}


def batch_of(name, vocab_size):
    """The batch for a class."""
    choices = NUM_LABELS if name == "BertForMultipleChoice" else 1
    return inputs(vocab_size, choices)


def our_logits(model, batch):
    """Every output of a model, one after the other, flat."""
    batch = {k: tf.constant(v) for k, v in batch.items()}
    if isinstance(model, BertModel):
        output = model(
            batch["input_ids"], batch["input_mask"], batch["segment_ids"]
        )
        outputs = (output.get_sequence_output(), output.pooled_output)
    else:
        shape = batch["input_ids"].shape
        batch["masked_lm_positions"] = tf.tile(
            tf.range(shape[1])[tf.newaxis], [shape[0], 1]
        )
        outputs = model.logits(batch)
    return np.concatenate([np.ravel(x) for x in tf.nest.flatten(outputs)])


def export_random_models(folder):
    """Writes our random models for transformers; returns their logits."""
    rng = np.random.default_rng(3)
    logits = {}
    for name, model in models(config()).items():
        variables = checkpoints.variables_by_name(model.layers)
        for variable in variables.values():
            # Biases and layer norms too: zeros and ones would hide a mistake.
            variable.assign_add(rng.normal(0, 0.1, variable.shape))
        kind = getattr(model, "kind", None)
        checkpoints.write(
            f"{folder}/ours/{name}/bert_model.ckpt",
            {n: v.numpy() for n, v in variables.items()},
        )
        conversion.run(
            conversion.ConversionOptions(
                model=f"{folder}/ours/{name}",
                output_dir=f"{folder}/exported/{name}",
                bert_config_file=str(ROOT / "tests/goldens/bert_config.json"),
                vocab_file=str(VOCAB),
                kind=kind,
            )
        )
        batch = batch_of(name, config().vocab_size)
        np.savez(f"{folder}/exported/{name}/batch.npz", **batch)
        logits[name] = our_logits(model, batch)
    return logits


def export_minilm(folder):
    """MiniLM to our files and back; returns our outputs of our files."""
    for source, target in (
        (FLAGS.minilm, "ours/MiniLM"),
        (f"{folder}/ours/MiniLM", "exported/MiniLM"),
    ):
        conversion.run(
            conversion.ConversionOptions(
                model=source, output_dir=f"{folder}/{target}"
            )
        )
    encoder = BertModel(
        BertConfig.from_json_file(f"{folder}/ours/MiniLM/bert_config.json")
    )
    checkpoints.init_from_checkpoint(
        f"{folder}/ours/MiniLM", checkpoints.variables_by_name([encoder])
    )
    batch = inputs(encoder.config.vocab_size)
    np.savez(f"{folder}/exported/MiniLM/batch.npz", **batch)
    return our_logits(encoder, batch)


def import_model(path, name):
    """Our outputs with the weights of a folder that transformers wrote."""
    config = BertConfig.from_json_file(f"{path}/config.json")
    model = models(config).get(name) or BertModel(config)
    layers = getattr(model, "layers", [model])
    report = checkpoints.init_from_checkpoint(
        path, checkpoints.variables_by_name(layers)
    )
    if report.unused:
        raise ValueError(str(report))
    return our_logits(model, dict(np.load(f"{path}/batch.npz")))


def ask_transformers(folder):
    """Runs the other half in its own environment."""
    python = Path(FLAGS.environment) / "bin/python"
    ready = Path(FLAGS.environment) / ".ready"
    if not ready.exists():
        subprocess.check_call([sys.executable, "-m", "venv", FLAGS.environment])
        subprocess.check_call([python, "-m", "pip", "install", "-q", *PACKAGES])
        ready.touch()
    script = Path(__file__).with_name("huggingface_agreement_theirs.py")
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    subprocess.check_call(
        [python, script, folder, FLAGS.minilm or "", *TEXTS], env=environment
    )
    return (
        dict(np.load(f"{folder}/exported.npz")),
        dict(np.load(f"{folder}/theirs.npz")),
        dict(np.load(f"{folder}/tokens.npz")),
    )


def compare_tokens(folder, tokens):
    """Compares the wordpieces of a few texts; True if they are equal."""
    tokenizer = FullTokenizer(f"{folder}/exported/{tokens['model']}/vocab.txt")
    cls, sep = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    equal = all(
        [cls, *tokenizer.encode(text), sep] == list(tokens[str(number)])
        for number, text in enumerate(TEXTS)
    )
    print(f"tokens of {len(TEXTS)} texts equal: {equal}")
    return equal


def compare(folder):
    """Prints a line a model and direction; True if all of them agree."""
    ours = export_random_models(folder)
    if FLAGS.minilm:
        ours["MiniLM"] = export_minilm(folder)
    exported, theirs, tokens = ask_transformers(folder)
    worst = 0.0
    print("direction, class: greatest difference (of outputs up to)")
    for name, logits in ours.items():
        pairs = (
            ("ours -> theirs", logits, exported[name]),
            (
                "theirs -> ours",
                import_model(f"{folder}/theirs/{name}", name),
                theirs[name],
            ),
        )
        for direction, a, b in pairs:
            difference = np.abs(a - b).max()
            worst = max(worst, difference)
            print(
                f"{direction}, {name}: {difference:.1e} ({np.abs(b).max():.2f})"
            )
    return compare_tokens(folder, tokens) and worst <= TOLERANCE


def main(_):
    """Exits with 1 if they do not agree."""
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(not compare(folder))


if __name__ == "__main__":
    define_flags()
    app.run(main)

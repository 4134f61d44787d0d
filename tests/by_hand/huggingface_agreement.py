r"""Compares outputs with those of Hugging Face's transformers, both ways.

  make peers
  python tests/by_hand/huggingface_agreement.py --minilm=all-MiniLM-L6-v2

Random models of every kind, of BERT and ELECTRA, go to transformers through
convert_checkpoint.py's code, and transformers' random models come back as with
--init_checkpoint. So does the folder --minilm, if given. Compares the
wordpieces of a few texts, too. Fails above a difference of 1e-4.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from absl import app, flags

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from data.text.tokenization import FullTokenizer  # noqa: E402
from modeling import (  # noqa: E402
    BertConfig,
    BertModel,
    PretrainingModel,
    SpanModel,
    TaskModel,
    checkpoints,
    heads,
)
from tests.support.conversion_support import convert  # noqa: E402
from tests.support.model_folder_support import (  # noqa: E402
    load_weights,
    variables_of,
    write_weights,
)

FLAGS = flags.FLAGS
CONFIG = str(ROOT / "tests/goldens/bert_config.json")
VOCAB = str(ROOT / "tests/goldens/vocab.txt")
TOLERANCE = 1e-4
NUM_LABELS = 3
TEXTS = (
    "The man went to the store, didn't he?",
    "Ünaffable naïveté — résumé 3.14 北京 🙂",
    "a" * 50 + " MIXED Case\ttabs",
)


class Electra:
    """ELECTRA's discriminator or, beside it, its generator."""

    def __init__(self, config, generator_config=None):
        bert = self.encoder = BertModel(config)
        if generator_config:
            self.encoder = BertModel(
                generator_config, embeddings=bert.embeddings, name="generator"
            )
            self.head = heads.GeneratorPredictions(generator_config)
        else:
            self.head = heads.DiscriminatorPredictions(config)
        self.table = bert.get_embedding_table() if generator_config else None
        self.layers = tuple({id(x): x for x in (bert, self.encoder)}.values())
        self.layers += (self.head,)

    def logits(self, batch):
        """Scores each wordpiece, or the vocabulary for each."""
        names = ("input_ids", "input_mask", "segment_ids")
        output = self.encoder(*(batch[name] for name in names))
        inputs = [output.get_sequence_output()]
        if self.table is not None:
            inputs.append(tf.convert_to_tensor(self.table))
        return self.head(*inputs)


def models(config):
    """Name of transformers' class -> a model of ours."""
    if config.electra:
        small = dataclasses.replace(
            config,
            embedding_size=config.embedding_width,
            hidden_size=16,
            num_attention_heads=1,
            intermediate_size=48,
        )
        return {
            "ElectraForPreTraining": Electra(config),
            "ElectraForMaskedLM": Electra(config, small),
            "ElectraForQuestionAnswering": SpanModel(config),
            "ElectraForTokenClassification": TaskModel(
                config, "tagging", NUM_LABELS
            ),
        }
    tasks = {
        "BertForSequenceClassification": "classification",
        "BertForTokenClassification": "tagging",
        "BertForMultipleChoice": "choice",
    }
    return {
        "BertForPreTraining": PretrainingModel(config),
        "BertForQuestionAnswering": SpanModel(config),
        **{
            name: TaskModel(config, kind, NUM_LABELS)
            for name, kind in tasks.items()
        },
    }


def write_batch(folder, name, vocab_size):
    """Writes a batch with padding, int32 [3, choices * 40]; returns it."""
    rng = np.random.default_rng(7)
    shape = (3, NUM_LABELS if name == "BertForMultipleChoice" else 1, 40)
    lengths = rng.integers(4, 41, shape[:2])
    lengths[0, 0] = 40
    places = np.arange(40)
    mask = places < lengths[..., None]
    batch = {
        "input_ids": rng.integers(5, vocab_size, shape) * mask,
        "input_mask": mask,
        "segment_ids": (places >= lengths[..., None] // 2) & mask,
    }
    batch = {k: v.reshape(3, -1).astype(np.int32) for k, v in batch.items()}
    np.savez(f"{folder}/batch.npz", **batch)
    return batch


def outputs(model, batch):
    """Every output of a model, flat, one after the other."""
    batch = {k: tf.constant(v) for k, v in batch.items()}
    if isinstance(model, BertModel):
        output = model(*batch.values())
        found = (output.get_sequence_output(), output.pooled_output)
    else:
        rows, places = batch["input_ids"].shape
        batch["masked_lm_positions"] = tf.tile([tf.range(places)], [rows, 1])
        found = model.logits(batch)
    return np.concatenate([np.ravel(x) for x in tf.nest.flatten(found)])


def write_random(model, folder):
    """Gives a model random weights, and writes them."""
    rng = np.random.default_rng(3)
    for variable in variables_of(model).values():
        # Biases and layer norms too: zeros and ones would hide a mistake.
        variable.assign_add(rng.normal(0, 0.1, variable.shape))
    write_weights(f"{folder}/bert_model.ckpt", model)


def run_theirs(*arguments):
    """Runs the other half in transformers' environment."""
    script = Path(__file__).with_name("huggingface_agreement_theirs.py")
    subprocess.run(
        [FLAGS.python, script, *arguments],
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        check=True,
    )


def export_random_models(folder):
    """Writes our random models for transformers; returns their outputs."""
    config, found = BertConfig.from_json_file(CONFIG), {}
    electra = dataclasses.replace(
        config, electra=True, embedding_size=24, hidden_act="gelu_exact"
    )
    config_file = f"{folder}/electra_config.json"
    Path(config_file).write_text(electra.to_json_string())
    for name, model in (models(config) | models(electra)).items():
        source, target = f"{folder}/ours/{name}", f"{folder}/exported/{name}"
        write_random(model, source)
        convert(
            source,
            target,
            bert_config_file=CONFIG if "Bert" in name else config_file,
            vocab_file=VOCAB,
            kind=getattr(model, "kind", None),
            electra_part="generator"
            if name == "ElectraForMaskedLM"
            else "discriminator",
        )
        found[name] = outputs(
            model, write_batch(target, name, config.vocab_size)
        )
    return found


def export_minilm(folder):
    """Converts MiniLM to our files and back; returns its outputs here."""
    ours, target = f"{folder}/ours/MiniLM", f"{folder}/exported/MiniLM"
    convert(FLAGS.minilm, ours)
    convert(ours, target)
    config = BertConfig.from_json_file(f"{ours}/bert_config.json")
    write_batch(target, "MiniLM", config.vocab_size)
    return import_model(ours, "MiniLM", config, f"{target}/batch.npz")


def import_model(path, name, config, batch):
    """Our outputs with the weights of a folder."""
    if name == "ElectraForMaskedLM":
        model = Electra(config, config)
        checkpoint = checkpoints.open_checkpoint(path)
        # A generator alone: the programs refuse it.
        variables = variables_of(model)
        variables = {n: variables[n] for n in checkpoint.shapes}
        checkpoints.assign(checkpoint, variables)
        return outputs(model, dict(np.load(batch)))
    model = models(config).get(name) or BertModel(config)
    report = load_weights(path, model)
    if report.unused:
        raise ValueError(str(report))
    return outputs(model, dict(np.load(batch)))


def compare(folder):
    """Prints a line a model and direction; True if all of them agree."""
    ours = export_random_models(folder)
    if FLAGS.minilm:
        ours["MiniLM"] = export_minilm(folder)
    run_theirs(folder, FLAGS.minilm or "", *TEXTS)
    exported, theirs, tokens = (
        dict(np.load(f"{folder}/{name}.npz"))
        for name in ("exported", "theirs", "tokens")
    )
    worst = 0.0
    print("direction, class: greatest difference (of outputs up to)")
    for name, exported_here in ours.items():
        path = f"{folder}/theirs/{name}"
        config = BertConfig.from_json_file(f"{path}/config.json")
        imported = import_model(path, name, config, f"{path}/batch.npz")
        for direction, a, b in (
            ("ours -> theirs", exported_here, exported[name]),
            ("theirs -> ours", imported, theirs[name]),
        ):
            difference = np.abs(a - b).max()
            worst = max(worst, difference)
            print(
                f"{direction}, {name}: {difference:.1e} ({np.abs(b).max():.2f})"
            )
    tokenizer = FullTokenizer(f"{folder}/exported/{tokens['model']}/vocab.txt")
    cls, sep = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    equal = all(
        [cls, *tokenizer.encode(text), sep] == list(tokens[str(number)])
        for number, text in enumerate(TEXTS)
    )
    print(f"tokens of {len(TEXTS)} texts equal: {equal}")
    return equal and worst <= TOLERANCE


def main(_):
    """Exits with 1 if they do not agree."""
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(not compare(folder))


if __name__ == "__main__":
    flags.DEFINE_string("minilm", None, "A folder of Hugging Face with BERT.")
    flags.DEFINE_string(
        "python", str(ROOT / ".venv-peers/bin/python"), "Of `make peers`."
    )
    app.run(main)

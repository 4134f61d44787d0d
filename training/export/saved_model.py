"""A trained model as a SavedModel, as TF Serving loads it.

EXPORT_DIR/1/saved_model.pb, variables/     the model
             assets/vocab.txt, task.json    for clients that send ids
             assets.extra/tf_serving_warmup_requests
             README.md                      the model card
"""

import contextlib
import dataclasses
import itertools
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from data.records import tfrecord
from data.settings import in_flag, names_of
from data.squad.window_options import AnswerOptions, WindowOptions
from data.storage import files, json_files, manifests
from data.tasks import task_names, task_options
from modeling import checkpoints, loading
from modeling.checkpoints import model_folder, tf1
from modeling.checkpoints.vector_form import VectorForm
from training.config.run_options import ExportOptions, dtype_policy
from training.export import litert, litert_model, model_card, requests
from training.export.functions import save
from training.export.loaded_model import serving_of
from training.export.serving import Serving, Signatures, choose
from training.start import description

WARM_UP = os.path.join("assets.extra", "tf_serving_warmup_requests")
_MOST_COMPARED = 256  # examples
# Of `Description.weights`, in the folder itself.
_OWN_WEIGHTS = re.compile(r"(?!/)[^:]*model\.ckpt-(\d+)")
_REMEDY = "evaluate again, or remove it"
# Flags that an export keeps as the run had them.
_OF_MODEL = {"labels", "document_context", "do_lower_case", "never_split"}
_OF_MODEL |= {"head", "feature_based", "kind", "label_separator"}
_OF_MODEL |= {"long_text", "long_text_pooling"}
_OF_MODEL.update(*map(names_of, (VectorForm, WindowOptions, AnswerOptions)))


def load(
    output_dir: str, precision: str = "float32", use_calibration: bool = True
) -> Serving:
    """Loads the model of a finished run, with its signatures.

    `precision` is a value of `--precision`. Raises ValueError if the folder
    holds no finished run, or the weights of another model.
    """
    output_dir = model_folder.chosen_trial(output_dir)
    described = description.read(output_dir)
    vocab_file = description.vocab_of(output_dir)
    dtype = dtype_policy(precision)
    loaded = loading.load(output_dir, vocab_file=vocab_file, dtype=dtype)
    description.require_vocabulary(output_dir, loaded.tokenizer)
    # Not always those of `task.json`: the run may have gone back.
    weights = description.place_of_weights(loaded.report.source, output_dir)
    described = dataclasses.replace(described, weights=weights)
    return serving_of(loaded, described, use_calibration)


def run(options: ExportOptions) -> str:
    """Exports the model of a finished run, and returns the version's folder.

    Raises ValueError or OSError if the run is not finished, or a file cannot be
    written.
    """
    checkpoints.require_readable(options.export_dir)
    version = litert_model.newest_version(options.export_dir) + 1
    folder = os.path.join(options.export_dir, str(version))
    is_litert = options.format == "litert"
    if version > 1 and is_litert != bool(litert_model.find(options.export_dir)):
        raise ValueError(
            f"--export_format={options.format}: --export_dir="
            f"{options.export_dir} has versions of the other format, and a "
            "server would load the newest one; give another folder."
        )
    output_dir = model_folder.chosen_trial(options.output_dir)
    serving = load(output_dir, options.precision, options.use_calibration)
    described = dataclasses.replace(serving.description, weights="")
    _warn_of_other_model(options.export_dir, str(version - 1), vars(described))
    vocab_file = description.vocab_of(output_dir)
    if is_litert:
        with _appears(folder) as temporary:
            described.write(temporary, vocab_file)
            figures = _metrics(output_dir, serving.description)
            litert.write(serving, figures, temporary)
        logging.info("Wrote %s", folder)
        return folder
    exported = choose(serving, options.serving)
    figures = _figures(options, serving, output_dir)
    data = _data(options.output_dir)
    card = model_card.text(serving, exported, version, data, figures)
    with _appears(folder) as temporary:
        write(serving, exported, card, temporary)
        described.write(os.path.join(temporary, "assets"), vocab_file)
    logging.info("Wrote %s: %s", folder, ", ".join(exported))
    return folder


def _warn_of_other_model(export_dir: str, version: str, now: dict) -> None:
    """Warns if a server would go on with another kind of answers."""
    folder = os.path.join(export_dir, version)
    before, read = now, model_folder.read_description
    with contextlib.suppress(ValueError):  # damaged: a server has it already
        before = read(os.path.join(folder, "assets")) or read(folder) or now
    names = ("task_name", "kind", "is_pair", "labels")
    shown = [{n: in_flag(x.get(n)) for n in names} for x in (before, now)]
    if changed := manifests.changes(*shown):
        logging.warning(
            f"--export_dir={export_dir}: version {version} is another model's "
            f"({'; '.join(changed)}); a server will switch to the new version."
        )


def _figures(options: ExportOptions, serving: Serving, output_dir: str) -> dict:
    """Returns the model's metrics, and what its arithmetic costs."""
    figures = {"arithmetic": options.precision}
    if options.precision != "float32":
        exact = load(output_dir, use_calibration=options.use_calibration)
        error = measure_error(exact, serving, options.output_dir)
        logging.info("%s against float32: %s", options.precision, error)
        figures["against float32"] = error
    return figures | _metrics(output_dir, serving.description)


def describes_export(output_dir: str, given: Mapping[str, Any]) -> bool:
    """Whether a folder's `task.json` says all about the model to export.

    It does not if the command trains, or nothing was trained in the folder and
    --init_checkpoint names another model. `given` are flag -> value. Raises
    ValueError for an unfinished run, and flags that its model is not made with.
    """
    folder = model_folder.chosen_trial(output_dir)
    described, source = description.find(folder), given.get("init_checkpoint")
    if not described or given.get("do_train"):
        return False
    if source and not tf1.has_run(folder):
        named = model_folder.find(source).weights
        if described.weights != description.place_of_weights(named, folder):
            return False
    if not described.weights:
        raise ValueError(description.UNFINISHED % folder)
    made_with = _flags_of(folder, described)
    for name in sorted(_OF_MODEL & given.keys() & made_with.keys()):
        was, now = in_flag(made_with[name]), in_flag(given[name])
        order = list if name == "labels" else sorted  # labels have ids
        if order(f"{was}".split(",")) != order(f"{now}".split(",")):
            raise ValueError(
                f"--{name}={now}: the model of {folder} is made with "
                f"--{name}={was}. Leave the flag out, or train with it."
            )
    return True


def _flags_of(folder: str, described: description.Description) -> dict:
    """Flag -> what a folder's model is made with."""
    form = VectorForm.find(folder)
    values = {**(vars(form) if form else {}), **vars(described)}
    head = json_files.find_json(os.path.join(folder, model_folder.HEAD))
    values |= {"head": "linear"} | head | described.model
    if long_text := described.options().get("long_text"):  # a task's model
        values["long_text"] = long_text.mode
        values["long_text_pooling"] = long_text.pooling
        name = described.task_name
        if name in task_names() and "kind" in task_options(name):
            values["kind"] = "single"
        values |= described.columns
    return values


def write(serving: Serving, exported: Signatures, card: str, path: str) -> None:
    """Writes a SavedModel, its warm-up requests and its card."""
    warm_up = os.path.join(path, WARM_UP)
    save(path, serving.weights, {n: f for n, (f, _) in exported.items()})
    tf.io.gfile.makedirs(os.path.dirname(warm_up))
    with tfrecord.RecordWriter(warm_up) as writer:
        for name, (_, inputs) in exported.items():
            writer.write(requests.prediction_log(name, inputs))
    files.write_text(os.path.join(path, "README.md"), card)


@contextlib.contextmanager
def _appears(folder: str) -> Iterator[str]:
    """Yields a folder that gets its name when it is complete."""
    # A server loads folders whose names are numbers. The temporary name is
    # random, so that no other user can put something else in its place.
    temporary = files.incomplete(folder, secrets.token_hex(8))
    try:
        yield temporary
        tf.io.gfile.rename(temporary, folder)
    except tf.errors.OpError as error:
        raise OSError(
            f"cannot write {folder}: {error.message}. Nothing was changed; "
            "check permissions, free space and that no other export runs."
        ) from error
    finally:
        with contextlib.suppress(tf.errors.NotFoundError):
            tf.io.gfile.rmtree(temporary)


def measure_error(
    exact: Serving, served: Serving, output_dir: str, num_random: int = 64
) -> dict[str, Any]:
    """Compares a model with its float32 form on the dev set's records.

    Without `eval.tf_record` in output_dir, `num_random` rows of random ids are
    compared. The figures are about the output that `Serving.compared` names,
    padding left out. Raises ValueError if the records do not fit the model.
    """
    path = os.path.join(output_dir, "eval.tf_record")
    records = tfrecord.read_records(path) if files.exists(path) else ()
    inputs = list(itertools.islice(records, _MOST_COMPARED))
    source = f"the first {len(inputs)} records of the dev set"
    name = "serve_examples"
    if not inputs:
        rng = np.random.default_rng(0)
        inputs, name = exact.random_ids(rng, num_random), "serve_ids"
        source = f"{len(inputs)} rows of random wordpieces"
    differences, same = [], []
    for start in range(0, len(inputs), 16):
        batch = tf.constant(inputs[start : start + 16])
        try:
            a, b = (x.signatures[name](batch) for x in (exact, served))
            is_real = exact.is_real(batch, a)
        except tf.errors.InvalidArgumentError:
            raise ValueError(
                f"{path}: these records are not of this model, perhaps of "
                f"another --max_seq_length; {_REMEDY}."
            ) from None
        key = next(key for key in exact.compared if key in a)
        differences.append(np.ravel(np.abs(a[key] - b[key])[is_real]))
        if "label" in a:
            same.append((a["label"] == b["label"]).numpy()[is_real])
    differences = np.concatenate(differences)
    found = {"largest difference": float(differences.max())}
    found["mean difference"] = float(differences.mean())
    if same:
        found["share of equal labels"] = float(np.concatenate(same).mean())
    return found | {"compared": source}


def _data(output_dir: str) -> dict[str, Any]:
    """Returns what the manifests of a run's records say; {} = no records."""
    found, folders = {}, (output_dir, model_folder.chosen_trial(output_dir))
    for folder, name in itertools.product(folders, ("train", "eval")):
        path = os.path.join(folder, f"{name}.tf_record{files.MANIFEST_SUFFIX}")
        if made := json_files.find_json(path, ("made_from", "report"), _REMEDY):
            found[name] = {"examples": made["report"].get("num_examples")}
            for key in ("data_sha256", "examples_sha256"):
                if key in made["made_from"]:
                    found[name][key.replace("_", " ")] = made["made_from"][key]
    return found


def _metrics(output_dir: str, described: description.Description) -> dict:
    """Returns the metrics of a model's last evaluation; {} = none."""
    path = os.path.join(output_dir, "metrics.json")
    found = json_files.find_json(path, remedy=_REMEDY)
    step = _OWN_WEIGHTS.fullmatch(described.weights)
    own = {**vars(described), "global_step": int(step[1])} if step else {}
    own.pop("save_best", "")  # which may be a shorter form of a metric's name
    for name, value in own.items():
        if found.get(name, value) != value:
            logging.warning(
                "%s is about %s %s, but the model's is %s: the export has no "
                "metrics. Evaluate or predict again, then export.",
                *(path, name, found[name], value),
            )
            return {}
    long = ("details", "calibration")  # for a card
    return {name: value for name, value in found.items() if name not in long}

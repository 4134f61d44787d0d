"""The records of a pretraining run, checked against its flags and its model."""

import hashlib
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from data.pretraining.data_options import OF_MASKS
from data.records import feature_spec, input_pipeline, reading, tfrecord
from data.records.input_pipeline import RecordFiles
from data.records.tfrecord import DamagedError
from data.storage import files, manifests
from data.storage.manifests import OF_TEXT
from modeling import objectives
from modeling.config import BertConfig
from training.config.pretraining_options import PretrainingOptions
from training.loop.checkpointing import CheckpointManager
from training.pretraining import text_size
from training.start import description, remembered, setup

_LABELS = "next_sentence_labels"
# Each with its owner: names in `OF_TEXT` and their values.
OfText = list[tuple[str, Mapping[str, Any]]]
# Flags without which the variables of a run's model are other ones.
_OF_OBJECTIVE = ("objective", "generator_size")


def open_records(
    patterns: str,
    options: PretrainingOptions,
    config: BertConfig,
    vocab: Mapping[str, int],
    known: OfText,
) -> RecordFiles:
    """Checks records against the flags and the model.

    The specs of the files have `masked_lm_*` if the records are masked, and
    `next_sentence_labels` if they are pairs.

    `vocab`, token -> id, is used if `options.needs_ids`. What the files were
    made with is added to `known`, see `require_one_text`. Raises
    FileNotFoundError if no file matches; ValueError if one is damaged or does
    not fit.
    """
    flag = "eval_file" if patterns == options.eval_file else "input_file"
    paths = files.expand_patterns(patterns, flag)
    specs, skips = _specs(paths, options), options.skip_bad_records
    limits = setup.limits_of(config) | {
        _LABELS: 2,
        "masked_lm_ids": config.vocab_size,
        "masked_lm_positions": options.max_seq_length,
    }
    try:
        opened = input_pipeline.open_records(
            paths, specs, limits=limits, skip_bad_records=skips
        )
        _check_manifests(opened, options, vocab, known)
    except DamagedError as error:
        raise DamagedError(
            f"{error} Or pass --skip_bad_records: it leaves out what is "
            "damaged, and reports how much that is."
        ) from None
    no_pairs = ", no pairs"
    if "next sentence" in objectives.get(options.objective).head_variables:
        no_pairs += ": only masked LM is trained and measured"
    logging.info(
        "%s: %d files, %d examples%s.",
        *(patterns, len(paths), opened.count),
        "" if hold_pairs(opened) else no_pairs,
    )
    return opened


def _specs(
    paths: Sequence[str], options: PretrainingOptions
) -> tuple[feature_spec.FeatureSpec, ...]:
    """Returns the features of records; refuses what the run cannot read."""
    flag = f"--objective={options.objective}"
    objective = objectives.get(options.objective)
    masked = objective.reads_masks and not options.needs_ids
    other, wanted = ("dynamic", "static") if masked else ("static", "dynamic")
    remedy = f"; pass --masking={other}, or"
    if not objective.reads_masks:
        remedy = f", but {flag} reads records without masks;"
    for path in paths:
        names = reading.feature_names(path)
        if "input_ids" in names and ("masked_lm_ids" in names) != masked:
            raise ValueError(
                f"{path}: its records are {'not ' * masked}masked{remedy} "
                f"write them by create_pretraining_data.py --masking={wanted}."
            )
    return feature_spec.pretraining_features(
        options.max_seq_length,
        options.max_predictions_per_seq,
        masked=masked,
        pairs=_are_pairs(paths, flag, objective.pairs),
    )


def compare(train: RecordFiles, dev: RecordFiles) -> None:
    """Warns of an evaluation on records that are trained on.

    Raises ValueError for dev pairs if the run learns none.
    """
    if {*train.paths} & {*dev.paths}:
        warn_of_trained_text()
    if hold_pairs(dev) and not hold_pairs(train):
        raise ValueError(
            f"the records of --eval_file ({dev.paths[0]}) are sentence pairs, "
            f"but those of --input_file ({train.paths[0]}) are none. Give both "
            "the same --next_sentence_prediction of create_pretraining_data.py."
        )


def warn_of_trained_text() -> None:
    """Warns that a model is scored on what it was trained on."""
    logging.warning(
        "The evaluation reads the records that are trained on, so it measures "
        "memorization. Give --eval_file, held-out records."
    )


def hold_pairs(opened: RecordFiles) -> bool:
    """Whether records that `open_records` opened are sentence pairs."""
    return any(spec.name == _LABELS for spec in opened.specs)


def _are_pairs(paths: Sequence[str], flag: str, needed: bool | None) -> bool:
    """Whether the records are pairs; refuses records that do not fit."""
    labels = {path: _labels(path) for path in paths}
    no_pair = feature_spec.NO_PAIR
    with_pairs = [path for path, x in labels.items() if (x != no_pair).any()]
    without = [path for path, x in labels.items() if (x == no_pair).any()]
    if with_pairs and without:
        raise ValueError(
            f"{with_pairs[0]} holds records that are sentence pairs, "
            f"{without[0]} records that are not (next_sentence_labels is "
            f"{no_pair}). Give --input_file and --eval_file one kind each: "
            "the same --next_sentence_prediction of create_pretraining_data.py."
        )
    if needed is False and with_pairs or needed and without:
        raise ValueError(
            f"{(with_pairs or without)[0]}: its records are "
            f"{'not ' * needed}sentence pairs, but {flag} reads records "
            f"{'of' if needed else 'without'} pairs; write them with "
            "create_pretraining_data.py --next_sentence_prediction="
            f"{str(needed).lower()}."
        )
    # Records without labels are refused later, unless no label is read.
    return not without if needed is None else needed


def _labels(path: str) -> np.ndarray:
    """The labels of the first 1,000 whole records; none if they have none."""
    first = list(itertools.islice(tfrecord.whole_records(path), 1000))
    specs = [feature_spec.FeatureSpec(_LABELS, 1)]
    try:
        batch = reading.parse_batch(specs, tf.constant(first, tf.string))
        return batch[_LABELS].numpy()[:, 0]
    except tf.errors.InvalidArgumentError:
        return np.zeros(0, np.int32)  # `check_record` says what is wrong


def _check_manifests(
    opened: RecordFiles,
    options: PretrainingOptions,
    vocab: Mapping[str, int],
    known: OfText,
) -> None:
    """Refuses files that lack records, or were made with another vocabulary.

    If a file ends between two records, only its manifest tells.
    """
    for path in opened.paths:
        manifest = manifests.of_shard(path) or {"shards": (), "made_from": {}}
        name, shards = os.path.basename(path), manifest["shards"]
        # Shards in several folders may have one name.
        counts = [x["counts"]["examples"] for x in shards if x["file"] == name]
        found, expected = opened.some([path]).count, min(counts, default=0)
        if found < expected:
            lacks = f"{path} has {found} of {expected} records of its manifest"
            if not options.skip_bad_records:
                raise DamagedError(f"{lacks}; copy or write the file again.")
            logging.warning("--skip_bad_records: %s.", lacks)
        count = 2 + hold_pairs(opened)  # the last is of pairs
        known.append((path, of_text(manifest["made_from"], count)))
        require_one_text(known)
        if options.needs_ids and not _fits(opened, path, vocab):
            raise ValueError(
                f"{path} was not made with --vocab_file={options.vocab_file}; "
                "give the vocabulary that create_pretraining_data.py was given."
            )


def of_text(facts: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Returns those facts that are among the first `count` of `OF_TEXT`."""
    return {n: facts[n] for n in OF_TEXT[:count] if n in facts}


def require_one_text(known: OfText) -> None:
    """Refuses several vocabularies, cases or meanings of labels."""
    for name in OF_TEXT:
        owners = {x[name]: owner for owner, x in reversed(known) if name in x}
        if len(owners) > 1:
            what = f"--{name}".replace("--vocab_sha256", "vocabulary")
            whose = " and ".join(reversed(owners.values()))
            raise ValueError(
                f"{whose} do not have the same {what}, so ids or labels differ "
                "in meaning; give the --vocab_file of "
                "create_pretraining_data.py, and what the same flags made."
            )


def _fits(opened: RecordFiles, path: str, vocab: Mapping[str, int]) -> bool:
    """Whether a file's first row is from [CLS] to [SEP] of a vocabulary."""
    first = next(tfrecord.whole_records(path))
    row = reading.parse_batch(opened.specs, [first])
    ids = row["input_ids"][0][row["input_mask"][0] == 1].numpy()
    return (ids[0], ids[-1]) == (vocab["[CLS]"], vocab["[SEP]"])


def of_manifest(path: str) -> dict[str, Any]:
    """Returns what a file was made from; {} = nothing says it."""
    return manifests.of_shard(path).get("made_from", {})


def left_out(
    options: PretrainingOptions, described: description.Description | None
) -> dict[str, Any]:
    """Returns the flags of the training records that the command leaves out.

    Without a checkpoint that says the length, it is that of an earlier export.
    """
    if options.do_train:
        place = files.expand_patterns(options.input_file)[0]
        make = {"do_lower_case": bool, "never_split": tuple}
        known = of_manifest(place)
    else:
        place, make = options.train.output_dir, {"max_seq_length": int}
        known = dict(vars(described)) if described else {}
        known |= CheckpointManager(place).made_from()
    said = {n: make[n](x) for n, x in known.items() if n in make}
    return remembered.left_out(options, said, place)


def require_same_objective(options: PretrainingOptions) -> None:
    """Refuses another objective, or case of an export, than the run's."""
    if not (folder := text_size.run_before(options)):
        return
    before = CheckpointManager(folder).made_from()
    # Later commands read queries as the export, whose settings the folder has.
    exports = options.do_export and "do_lower_case" in (options.given or ())
    for name in (*_OF_OBJECTIVE, *["do_lower_case"] * exports):
        if name in before and before[name] != options.find(name):
            raise ValueError(
                f"{folder} holds a run with --{name}={before[name]}; give "
                "this flag, or another folder; --init_checkpoint="
                f"{folder} takes its weights alone."
            )


def made_from(
    options: PretrainingOptions, opened: RecordFiles | None
) -> dict[str, Any]:
    """Returns what a run's training input depends on, for a `ResumePoint`.

    It has a checksum of the sizes and first records of the files, because all
    of them may be larger than a disk's cache. `opened` None leaves the records
    out.
    """
    masks, names = options.masking, (*OF_MASKS, "max_predictions_per_seq")
    facts = {
        "objective": options.objective,
        "masking": "dynamic" if masks else "in the records",
        **{name: getattr(masks, name) for name in names if masks},
        "separate_documents": options.separate_documents,
        "short_rows_share": options.short_rows_share,
        "max_seq_length": options.max_seq_length,
        **options.objectives.arguments(options.objective),
    }
    if opened:
        facts |= of_text(of_manifest(opened.paths[0]), len(OF_TEXT))
        checksum = hashlib.sha256()
        for path in opened.paths:
            checksum.update(f"{files.size(path)} ".encode())
            checksum.update(next(tfrecord.whole_records(path), b""))
        facts["records_sha256"] = checksum.hexdigest()
    return facts

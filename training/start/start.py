"""What a run begins with: each file is read once and checked once."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from data.storage import files, manifests, outputs
from data.storage.json_files import find_json, write_json
from modeling import checkpoints
from modeling.checkpoints.model_folder import CONFIG, HEAD, HEAD_REMEDY, LABELS
from modeling.config import BertConfig
from modeling.layers import loaded_later
from modeling.objectives.base import Objective
from training.config.finetuning_options import FinetuningOptions
from training.config.pretraining_options import PretrainingOptions
from training.devices.strategy import is_tpu, policy_of
from training.loop import resuming
from training.loop.checkpointing import CheckpointManager
from training.start import description, first_weights, setup
from training.start.first_weights import FirstWeights
from training.start.source import Source

# The output layer: a checkpoint of another task has it for other labels.
_OUTPUT = ("output_weights", "output_bias")
_LINEAR = {"feature_based": "", "head": "linear"}
NOT_USED = "--%s is not used: %s holds checkpoints."
_ORIGINS = ("init_checkpoint", "continue_from")


class Start:
    """Configuration, folder and first weights of a run; nothing is written.

    Args:
      options, config, source: see `Files`.
      make_model: returns a model; its arguments are config and options of
        `BertModel`.
      trains: whether the run trains before it predicts.
      heads: variables that are random if init_checkpoint has others, and that
        must be there to predict; () = all weights must fit.
      head: `feature_based` and `head` of the model, see `TaskModel`.
      labels: the task's labels in the order of their ids; None = the folder
        has no labels.txt.
      rows: names of the rows of the output layer, see `FirstWeights`.

    Attributes:
      metric: see `ItemObjective`; "" = the model has none.
      manager: manages the checkpoints in output_dir.
      first: the weights of init_checkpoint; None = the folder holds
        checkpoints, or the weights are random.
      origin: `init_checkpoint` or `continue_from`, for `ResumePoint.settings`;
        {} = not given.

    Raises:
      ValueError, OSError: output_dir holds another model, init_checkpoint is
        missing or does not fit, or there are no trained weights to predict.
    """

    def __init__(
        self,
        options: FinetuningOptions | PretrainingOptions,
        config: BertConfig,
        source: Source,
        make_model: Callable[..., Objective],
        *,
        trains: bool,
        heads: Sequence[str] = _OUTPUT,
        head: Mapping[str, str] = _LINEAR,
        labels: Sequence[str] | None = None,
        rows: Sequence[str] = (),
    ):
        self.options, self.config, self._trains = options, config, trains
        self._make_model, self._head, self._labels = make_model, head, labels
        self._folder = options.train.output_dir
        self.manager = self._open_folder()
        # In a graph, variables have shapes but no memory.
        with tf.Graph().as_default():
            model = make_model(config)
            variables = checkpoints.variables_by_name(model.layers)
        self.manager.check(variables)
        self.metric, self.first = getattr(model, "metric", ""), None
        self._loaded = {*variables} if self.manager.steps() else ()
        self.origin = self._origin_of(source)
        if self.manager.steps():
            point = self.manager.newest()
            began, own = point.settings, f"model.ckpt-{point.global_step}"
            for flag in filter(options.find, _ORIGINS):
                origins = own, began.get(flag)
                is_same = not began or self.origin.get(flag) in origins
                log = logging.info if is_same else logging.warning
                log(NOT_USED, flag, self._folder)
            return
        # Differs from the original: rows of a head for other labels are left
        # out, because a model of MNLI is a good start for RTE.
        if source.path:
            first_weights.compare(source, config)
            given = heads, rows, getattr(model, "reads_pooler", False)
            self.first = FirstWeights(source, variables, *given)
            self._loaded = self.first.loaded_whole
        self._check_first(heads, getattr(model, "kind", None))

    def _origin_of(self, source: Source) -> dict[str, str]:
        flag, place = "continue_from", self.options.find("continue_from")
        if source.folder:
            flag, place = "init_checkpoint", source.folder.weights
        if not place:
            return {}
        return {flag: description.place_of_weights(place, self._folder)}

    def _open_folder(self) -> CheckpointManager:
        """Opens output_dir; refuses a run of another model.

        Other labels, another order of them, and most other mixes of layers have
        the same variables, so that a checkpoint would be loaded without an
        error.
        """
        options, folder, config = self.options, self._folder, self.config
        config_file = options.bert_config_file
        setup.check_length(options.max_seq_length, config, config_file)
        files.check_writable(folder)
        manager = CheckpointManager(folder, options.train.keep_checkpoint_max)
        if not manager.steps():
            return manager
        if config_file != os.path.join(folder, CONFIG):
            setup.check_same_model(folder, config)
        path = os.path.join(folder, HEAD)
        before = find_json(path, tuple(_LINEAR), HEAD_REMEDY) or _LINEAR
        self._require_same_head(folder, before)
        path = os.path.join(folder, LABELS)
        if self._labels is not None and files.exists(path):
            if (kept := [*files.read_lines(path)]) != [*self._labels]:
                raise ValueError(
                    f"{folder} holds a model of the labels {', '.join(kept)}, "
                    f"but the task has {', '.join(self._labels)}; undo an edit "
                    "of labels.txt, give that task (of tables by --labels), or "
                    f"another --output_dir and --init_checkpoint={folder}."
                )
        return manager

    def _require_same_head(self, place: str, before: Mapping[str, str]) -> None:
        """Refuses another head; its variables may have the same shapes."""
        changed = [
            f"--{name} {before[name]!r} -> {value!r}"
            for name, value in self._head.items()
            if before[name] != value
        ]
        if changed:
            raise ValueError(
                f"{place} holds a run of another model: {', '.join(changed)}. "
                "Give another --output_dir, or the flags of that run."
            )

    def _check_first(self, heads: Sequence[str], kind: str | None) -> None:
        """Refuses to predict with, or to freeze, randomly initialized weights.

        Also refuses other labels if the first weights are in output_dir.
        """
        options, first, trains = self.options, self.first, self._trains
        # With save_best, the best weights of output_dir are used.
        predicts = not (trains or options.find("save_best"))
        if predicts and not options.init_checkpoint:
            raise ValueError(
                f"{self._folder} holds no checkpoint; train first, or give "
                "--init_checkpoint."
            )
        if first:
            first.require_own_labels(self._folder, trains)
        frozen = self._head.get("feature_based")
        if trains and frozen and not first:
            raise ValueError(
                f"--feature_based={frozen} never trains the encoder, which "
                "would stay random; give --init_checkpoint."
            )
        if trains and not first and isinstance(options, FinetuningOptions):
            logging.warning(
                "Training begins with random weights: there is no "
                "--init_checkpoint, and %s holds no checkpoint.",
                self._folder,
            )
        if predicts and heads:
            place = f"--init_checkpoint={first.path}"
            self._require_same_head(place, _LINEAR | first.head)
            first.require_heads(kind)

    def load(self, strategy: tf.distribute.Strategy) -> Objective:
        """Makes the model with its first weights; call it in the scope.

        Weights that init_checkpoint does not have are drawn from the seed. On a
        TPU words are always looked up by matrix product.
        """
        options, train = self.options, self.options.train
        keras.utils.set_random_seed(train.seed)
        with loaded_later(self._loaded):
            model = self._make_model(
                self.config,
                dtype=policy_of(options.device),
                use_one_hot_embeddings=options.use_one_hot_embeddings
                or is_tpu(strategy),
                gradient_checkpointing=train.gradient_checkpointing,
                whole_last_layer=train.whole_last_layer,
            )
        if self.first:
            self.first.load(checkpoints.variables_by_name(model.layers))
        return model

    def restore(self, weights: Mapping[str, tf.Variable]) -> int:
        """Loads the last checkpoint of output_dir; returns its step.

        Step 0 = there is none, and the weights are those of init_checkpoint.
        """
        if step := self.manager.restore(weights).global_step:
            logging.info("Using %s.", self.manager.prefix(step))
        return step

    def check_input(self, made_from: Mapping[str, Any]) -> None:
        """Raises ValueError if the run had other data, or another optimizer."""
        # Differs from the original: it goes on with other data, so that nobody
        # knows what the model was trained on.
        point, folder = self.manager.newest(), self._folder
        before = point.made_from
        if changed := manifests.changes(before, made_from) if before else []:
            raise ValueError(
                f"{folder} holds a run that was trained on other data: "
                f"{'; '.join(changed)}. Give another --output_dir, and to "
                f"start from its weights --init_checkpoint={folder}."
            )
        if point.global_step:
            resuming.check_optimizer(point, self.options.train, folder)

    def keep(self) -> None:
        """Writes bert_config.json, head.json and labels.txt to output_dir.

        head.json is not there if the head is linear. Raises OSError if a file
        cannot be written.
        """
        folder = self._folder
        if not self.manager.steps():
            used = None if self._trains else self.origin.get("init_checkpoint")
            description.forget_other_model(folder, used)
        path = os.path.join(folder, CONFIG)
        if not (self.manager.steps() and files.exists(path)):
            files.write_text(path, self.config.to_json_string())
        path, head = os.path.join(folder, HEAD), _LINEAR | self._head
        if head != _LINEAR:
            write_json(path, head)
        else:
            files.remove(path)
        if self._labels is not None:
            text = "".join(f"{label}\n" for label in self._labels)
            files.write_text(os.path.join(folder, LABELS), text)


def check_outputs(
    output_dir: str, inputs: Mapping[str, str | None], names: Sequence[str]
) -> None:
    """Refuses inputs that the run would replace, by their flag.

    `inputs` are flag -> path, or None; `names` the files that are written.
    """
    outputs.check(
        {flag: [path] for flag, path in inputs.items() if path},
        {"output_dir": [os.path.join(output_dir, name) for name in names]},
    )

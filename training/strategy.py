"""Chooses the devices, and says what it chose."""

import tensorflow as tf
from absl import logging

from training.options import DeviceOptions


def create_strategy(options: DeviceOptions) -> tf.distribute.Strategy:
    """Picks the distribution strategy of a run.

    Args:
      options: what the flags say.

    Returns:
      TPUStrategy, MirroredStrategy over several GPUs (or, by name, over all
      logical devices), or the default strategy of one device.

    Raises:
      ValueError: contradictory options, or no TPU where one is asked for.
    """
    kind = options.distribution_strategy
    if options.use_tpu and kind not in ("auto", "tpu"):
        raise ValueError(
            f"--use_tpu contradicts --distribution_strategy={kind}; drop one."
        )
    gpus = tf.config.list_logical_devices("GPU")
    if options.use_tpu or kind == "tpu":
        strategy = _tpu_strategy(options)
    elif kind == "mirrored" or (kind == "auto" and len(gpus) > 1):
        devices = gpus or tf.config.list_logical_devices("CPU")
        strategy = tf.distribute.MirroredStrategy([d.name for d in devices])
    else:
        strategy = tf.distribute.get_strategy()  # one device
    where = "TPU" if is_tpu(strategy) else "GPU" if gpus else "CPU"
    logging.info(
        "Computing on %d %s device(s) by %s in %s.",
        strategy.num_replicas_in_sync,
        where,
        type(strategy).__name__.lstrip("_"),
        options.precision,
    )
    return strategy


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether steps are compiled for a TPU."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def check_batch_size(flag: str, size: int, parts: int) -> None:
    """Refuses a global batch that cannot be cut into equal parts.

    Args:
      flag: its name, for the error.
      size: examples of the global batch.
      parts: devices times micro-batches.

    Raises:
      ValueError: names the two nearest sizes that can.
    """
    if size % parts:
        below, above = size // parts * parts, (size // parts + 1) * parts
        nearest = f"{below} or {above}" if below else f"{above}"
        raise ValueError(
            f"--{flag}={size} cannot be divided among {parts} parts "
            f"(devices x micro-batches); the nearest sizes are {nearest}."
        )


def _tpu_strategy(options: DeviceOptions) -> tf.distribute.Strategy:
    """Connects to the TPU that the original's flags name."""
    address = options.tpu_name or options.master or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=address, zone=options.tpu_zone, project=options.gcp_project
        )
        if address != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise ValueError(
            f"--use_tpu: no TPU answers at {address!r} "
            f"({str(error).splitlines()[0]}); check --tpu_name, --tpu_zone "
            "and --gcp_project, or drop --use_tpu."
        ) from error
    if strategy.num_replicas_in_sync != options.num_tpu_cores:
        logging.warning(
            "--num_tpu_cores=%d, but the TPU has %d; using those.",
            options.num_tpu_cores,
            strategy.num_replicas_in_sync,
        )
    return strategy

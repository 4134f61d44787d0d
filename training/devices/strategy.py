"""Selects the tf.distribute strategy, distributes input, gathers values.

A replica is the copy of the model on one device. Each worker (process) has its
own replicas. The functions of this file return the same on all workers.
"""

import contextlib
import functools
import hashlib
import os
import pathlib
import platform
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from data.records.shard import Shard
from data.settings import Settings
from modeling.kernels import Form, has_gpu
from modeling.kernels.recomputation import divided
from training.config.run_options import DeviceOptions, dtype_policy
from training.devices import gpus, kinds, precision, workers
from training.devices.workers import WAITS

Strategy = tf.distribute.Strategy


@functools.cache  # a process connects to its workers or to a TPU only once
def create_strategy(options: DeviceOptions) -> Strategy:
    """Selects and logs the distribution strategy of a run.

    With several workers, call it before TensorFlow computes anything; it waits
    for them. Further calls return the same strategy.

    Returns:
      TPUStrategy, MultiWorkerMirroredStrategy over the workers of TF_CONFIG,
      MirroredStrategy over several GPUs (or, by name, over all logical
      devices), or the default strategy for one device.

    Raises:
      ValueError: the options contradict each other, a TPU is missing, TF_CONFIG
        is malformed, or TensorFlow does not see the GPU.
    """
    kind, cluster = options.distribution_strategy, cluster_of(options)
    if not options.on_tpu:
        found = gpus.seen()
        gpus.check_seen(found, os.environ)
        gpus.why_not_compiled(found)  # before TensorFlow takes their memory
    if not options.allow_tf32:
        tf.config.experimental.enable_tensor_float_32_execution(False)
    if options.deterministic:
        tf.config.experimental.enable_op_determinism()
    if cluster:
        strategy = _connect(cluster)
    elif options.on_tpu:
        strategy = _tpu_strategy(options)
    else:
        strategy = tf.distribute.get_strategy()  # one device
        # Differs from the original: it uses one GPU, because it has no
        # distribution strategy outside a TPU.
        devices = tf.config.list_logical_devices("GPU")
        if kind == "mirrored" or (kind == "auto" and len(devices) > 1):
            devices = devices or tf.config.list_logical_devices("CPU")
            strategy = tf.distribute.MirroredStrategy([d.name for d in devices])
    _log_devices(strategy, options)
    return strategy


def _log_devices(strategy, options):
    """Logs devices and arithmetic of a run."""
    found = () if is_tpu(strategy) else gpus.seen()
    where = "TPU" if is_tpu(strategy) else "GPU" if found else "CPU"
    bfloat16 = _bfloat16(strategy)
    workers = num_workers(strategy)
    logging.info(
        "Computing on %d %s device(s)%s by %s in %s (%s).",
        *(strategy.num_replicas_in_sync, where),
        f" of {workers} workers" if workers > 1 else "",
        type(strategy).__name__.lstrip("_"),
        precision.choose(options.precision, bfloat16),
        bfloat16.found,
    )
    if found and gpus.has_tf32(found):
        logging.info(
            "Products of float32 are computed in TF32; --allow_tf32=false "
            "computes them in float32."
        )
    if reason := gpus.why_not_compiled(found):
        logging.warning("Nothing is compiled: %s. Training is slower.", reason)
    if warning := precision.warning(options.precision, bfloat16):
        logging.warning("%s", warning)


def precision_of(options: DeviceOptions) -> str:
    """Returns the precision of a run, never `auto` but what it selects."""
    bfloat16 = _bfloat16(create_strategy(options))
    return precision.choose(options.precision, bfloat16)


def policy_of(options: DeviceOptions) -> str:
    """The Keras policy of every layer of a run."""
    return dtype_policy(precision_of(options))


def _bfloat16(strategy: Strategy) -> precision.Bfloat16:
    """Whether bfloat16 is faster on the devices of a strategy."""
    return precision.TPU if is_tpu(strategy) else local_bfloat16()


def local_bfloat16() -> precision.Bfloat16:
    """Whether bfloat16 is faster on this host's GPUs, or its CPU."""
    if found := gpus.seen():
        return precision.of_gpus([gpu.capability for gpu in found])
    return precision.of_cpu(_cpuinfo(), os.environ)


def _cpuinfo() -> str:
    """The content of /proc/cpuinfo; "" where it is missing."""
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc/cpuinfo").read_text("utf-8", "replace")
    return ""


def cluster_of(options: DeviceOptions) -> workers.Cluster | None:
    """Returns the workers of a run; None = only this process.

    TF_CONFIG is not used with a TPU, or with other strategies given by name.
    Raises ValueError if it is needed and missing, or malformed.
    """
    kind = options.distribution_strategy
    by_name = kind == "multi_worker_mirrored"
    if not by_name and (options.use_tpu or kind != "auto"):
        return None
    cluster = workers.cluster_of(os.environ)
    if by_name and not cluster:
        raise ValueError(
            "--distribution_strategy=multi_worker_mirrored needs TF_CONFIG to "
            "name two workers or more, and which one this is."
        )
    return cluster


def _connect(cluster: workers.Cluster) -> Strategy:
    """Waits for the other workers and connects to them."""
    workers.meet(cluster)
    tf.get_logger().setLevel("WARNING")  # it logs every reduction
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (RuntimeError, tf.errors.OpError) as error:
        raise ValueError(
            f"{cluster.names[cluster.index]} could not join the workers of "
            f"TF_CONFIG ({str(error).splitlines()[0]}). Its port must be free, "
            "TF_CONFIG the same except for the index, and TensorFlow must not "
            "have computed anything before."
        ) from error


def num_workers(strategy: Strategy) -> int:
    """The number of processes of a run."""
    return getattr(strategy.extended, "_num_workers", 1)


def distribute(
    strategy: Strategy, make_batches: Callable[[Shard], tf.data.Dataset]
) -> tf.data.Dataset:
    """Distributes batches over the replicas, for `strategy.run`.

    `make_batches` returns a shard's rows of every global batch. Each worker,
    and each of its replicas, gets consecutive rows of a global batch.
    """
    # Datasets have no Python control flow over tensors for autograph.
    plain = tf.autograph.experimental.do_not_convert(make_batches)
    # The autotuning thread sleeps for up to a minute, and the end of an
    # iterator may wait for it: 1.9 s after a prediction of 3.3 s.
    options = tf.data.Options()
    options.autotune.enabled = False

    def of_worker(context):
        count = context.num_input_pipelines
        batches = plain(Shard(context.input_pipeline_id, count))
        replicas = context.num_replicas_in_sync // count
        return _per_replica(batches, replicas).with_options(options)

    # A batch stays on the host, as with one device. On a GPU, operations that
    # read its shapes and int32 numbers on the host would wait for the GPU.
    fetches = is_tpu(strategy)
    places = tf.distribute.InputOptions(experimental_fetch_to_device=fetches)
    return strategy.distribute_datasets_from_function(of_worker, places)


def _per_replica(batches: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Divides each batch into `count` batches of consecutive rows."""
    if count == 1:
        return batches

    def cut(x):
        # Keep static shapes, which a TPU needs.
        rows = x.shape[0] and x.shape[0] // count
        return tf.ensure_shape(divided(x, count), [count, rows, *x.shape[1:]])

    cut_all = functools.partial(tf.nest.map_structure, cut)
    return batches.map(cut_all, tf.data.AUTOTUNE, deterministic=True).unbatch()


def all_workers(strategy: Strategy, values: Sequence[float]) -> np.ndarray:
    """Gathers numbers from all workers into float64 [workers, N].

    All workers must call it at the same point.
    """
    if num_workers(strategy) == 1:
        return np.asarray([values], np.float64)
    # Each replica of a worker returns a row; take the first one.
    replicas = strategy.num_replicas_in_sync // num_workers(strategy)
    with WAITS.on():
        rows = _gather(strategy, tf.constant([values], tf.float64))
    return rows.numpy()[::replicas]


def checksum(text: str) -> float:
    """A number that identifies a text, for `all_workers`."""
    return float(int(hashlib.sha256(text.encode()).hexdigest()[:12], 16))


def check_together(strategy: Strategy, point: str) -> None:
    """Raises ValueError if workers are at different points of the program."""
    with WAITS.on(point):
        sums = all_workers(strategy, [checksum(point)])[:, 0]
    if len(set(sums)) > 1:
        other = int(np.argmax(sums != sums[0]))
        raise ValueError(
            f"worker {other} and the chief are at different points: one "
            f"reached {point}, the other did not. Look at their logs, then "
            "start all workers again with the same command."
        )


@tf.function
def _gather(strategy, rows):
    """Gathers rows from all replicas."""
    everyone = strategy.run(gathered, args=(rows,))
    return strategy.experimental_local_results(everyone)[0]


def gathered(rows: tf.Tensor) -> tf.Tensor:
    """The rows of all replicas; call it in replica context."""
    replica = tf.distribute.get_replica_context()
    # `identity` copies the rows to the replica's device.
    return replica.all_gather(tf.identity(rows), axis=0)


def is_tpu(strategy: Strategy) -> bool:
    """Whether steps are compiled for a TPU."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def kind_of(strategy: Strategy) -> kinds.Kind:
    """What is worthwhile on the devices of a strategy."""
    if is_tpu(strategy):
        return kinds.TPU
    return kinds.GPU if has_gpu() else kinds.CPU


def has_onednn(strategy: Strategy) -> bool:
    """Whether steps run on a processor with the kernels of oneDNN."""
    return (
        kind_of(strategy) is kinds.CPU
        and platform.machine() in ("x86_64", "AMD64")
        and precision.onednn_is_on(os.environ)
    )


def inference_form(strategy: Strategy, dtype: str, work: float = 0.0) -> Form:
    """The fastest form of a step without gradients on these devices.

    `work` is wordpieces x layers x hidden size for each length of the batches;
    from `Kind.repaid` on, a GPU is given compiled parts.
    """
    kind = kind_of(strategy)
    is_worthwhile = kind is kinds.GPU and work >= kind.repaid
    if is_worthwhile and not gpus.why_not_compiled(gpus.seen()):
        return Form.COMPILED
    if has_onednn(strategy) and precision.has_kernels(dtype, _cpuinfo()):
        return Form.KERNELS
    return Form.STANDARD


def check_batch_sizes(
    options: Settings, names: Iterable[str], flag: str = ""
) -> int:
    """Refuses batches that have no equal parts; returns the number of devices.

    `names` are fields of `options`; the error names the field, or `flag`.
    """
    count = create_strategy(options.device).num_replicas_in_sync
    for name in names:
        size, parts = options.find(name), count
        if name == "train_batch_size":
            parts *= options.find("gradient_accumulation_steps")
        if size % parts:
            below, above = size // parts * parts, (size // parts + 1) * parts
            nearest = f"{below} or {above}" if below else f"{above}"
            raise ValueError(
                f"--{flag or name}={size} cannot be divided into {parts} parts "
                f"(devices x micro-batches); the nearest sizes are {nearest}."
            )
    return count


def _tpu_strategy(options: DeviceOptions) -> Strategy:
    """Connects to the TPU that the flags name."""
    address = options.tpu_name or options.master or "local"
    # Connecting waits for an address that nobody answers, without an error.
    logging.info("Connecting to the TPU at %r.", address)
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
    given, there = options.num_tpu_cores, strategy.num_replicas_in_sync
    if given != there:
        logging.warning(
            "--num_tpu_cores=%d, but the TPU has %d; using those.", given, there
        )
    return strategy

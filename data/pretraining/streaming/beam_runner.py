"""Writes the shards of a run by Apache Beam, on a cluster or locally.

A shard is one element of the pipeline. Beam neither transfers nor shuffles text
and examples. Every machine must see the text, the vocabulary and the output
folder under the same paths, and must be able to import this project. This file
needs requirements-beam.txt.
"""

import shlex
from collections.abc import Sequence
from typing import Any

from data.pretraining.streaming.all_shards import Runner
from data.pretraining.streaming.shards import ShardTask, write_shard


def beam_runner(runner: str, pipeline_options: str = "") -> Runner:
    """Makes a runner for `all_shards.write_shards` of a Beam pipeline.

    `runner` is Beam's name for it, such as `DirectRunner` or `FlinkRunner`,
    `pipeline_options` more flags of Beam, as on a command line. The result
    returns when all shards are finished, and raises OSError if the pipeline
    fails. Raises ValueError if Beam is not installed, or does not know the
    runner.
    """
    try:
        import apache_beam as beam
    except ImportError:
        raise ValueError(
            "--runner needs Apache Beam, which is not installed; run `pip "
            "install -r requirements-beam.txt`."
        ) from None
    options = _pipeline_options(runner, pipeline_options)

    def write(tasks: Sequence[ShardTask]) -> None:
        try:
            with beam.Pipeline(options=options) as pipeline:
                (
                    pipeline
                    | "Shards" >> beam.Create(tasks)
                    # Otherwise a runner may keep all shards on one machine.
                    | "Spread" >> beam.Reshuffle()
                    | "Write" >> beam.Map(write_shard)
                )
        # Broad, because runners have no common base class of errors. The
        # error ends the run, and --verbosity=1 shows its whole traceback.
        except Exception as error:  # noqa: BLE001
            raise OSError(f"--runner={runner} failed: {error}") from error

    return write


def _pipeline_options(runner: str, flags: str) -> Any:
    """Parses Beam's flags; raises ValueError if Beam does not know one."""
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners import create_runner

    try:
        create_runner(runner)
    except (ValueError, ImportError, AttributeError) as error:
        raise ValueError(f"--runner={runner}: {error}") from None
    try:
        arguments = shlex.split(flags)
    except ValueError as error:
        raise ValueError(f"--beam_options={flags}: {error}.") from None
    options = PipelineOptions(["--runner", runner, *arguments])
    given = options.get_all_options(retain_unknown_options=True).keys()
    if unknown := given - options.get_all_options().keys():
        raise ValueError(
            f"--beam_options: Beam knows no {', '.join(sorted(unknown))}; see "
            "the options of its runner."
        )
    return options

"""The shards of a run, written by Apache Beam: on a cluster, or here.

A shard is one element of the pipeline; text and examples never pass through
the engine, and nothing is shuffled by it. Every machine must see the text, the
vocabulary and the folder of the output under the same paths, and be able to
import this project. Needs requirements-beam.txt.
"""

import shlex
from collections.abc import Callable, Sequence

from data.pretraining.streaming.shards import ShardTask, write_shard


def beam_runner(
    runner: str, pipeline_options: str = ""
) -> Callable[[Sequence[ShardTask]], None]:
    """Makes a runner for `streaming.write_shards`.

    Args:
      runner: Beam's name of it, such as `DirectRunner` or `FlinkRunner`.
      pipeline_options: more flags of Beam and of the runner, as on a command
        line.

    Returns:
      Writes shards through a Beam pipeline, and returns when all are
      finished; raises OSError if the pipeline fails.

    Raises:
      ValueError: Beam is not installed, or does not know the runner.
    """
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
        from apache_beam.runners import create_runner
    except ImportError:
        raise ValueError(
            "--runner needs Apache Beam, which is not installed; run `pip "
            "install -r requirements-beam.txt`."
        ) from None
    try:
        create_runner(runner)
    except (ValueError, ImportError, AttributeError) as error:
        raise ValueError(f"--runner={runner}: {error}") from None
    try:
        arguments = shlex.split(pipeline_options)
    except ValueError as error:
        raise ValueError(
            f"--beam_options={pipeline_options}: {error}."
        ) from None
    options = PipelineOptions(["--runner", runner, *arguments])
    unknown = options.get_all_options(retain_unknown_options=True).keys() - (
        options.get_all_options().keys()
    )
    if unknown:
        raise ValueError(
            f"--beam_options: Beam knows no {', '.join(sorted(unknown))}; see "
            "the options of its runner."
        )

    def write(tasks: Sequence[ShardTask]) -> None:
        try:
            with beam.Pipeline(options=options) as pipeline:
                (
                    pipeline
                    | "Shards" >> beam.Create(tasks)
                    # Otherwise an engine may keep them on one machine.
                    | "Spread" >> beam.Reshuffle()
                    | "Write" >> beam.Map(write_shard)
                )
        # Broad, because runners share no class of errors: one raises the
        # task's own under a new message, another an error of its job server.
        # Nothing is hidden: it ends the run, and --verbosity=1 shows it all.
        except Exception as error:  # noqa: BLE001
            raise OSError(f"--runner={runner} failed: {error}") from error

    return write

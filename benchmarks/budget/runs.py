"""Does the runs of the ladder by the project's programs."""

from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.budget import tasks, weights
from benchmarks.budget.hour import CONFIG
from benchmarks.budget.inputs import LENGTH, PREDICTIONS, Inputs
from benchmarks.budget.rungs import Rung, Settings
from benchmarks.programs import result_in, run_once, run_with_log
from data.storage.json_files import read_json, write_json
from training.loop.checkpointing import CheckpointManager
from training.loop.events import read_eval_results

SEED = tasks.SEED
_BATCH = 64  # of evaluation
_EVAL_STEPS = 16
_CURVE_STEPS = 4  # of the evaluations while training
_CURVE_POINTS = 10
_SAVES = 50  # checkpoints of a run whose last ones are averaged
_RESULT = "run.json"
# Names in the settings of a rung that are no flags of run_pretraining.py.
_NO_FLAGS = ("records", "warmup", "beta_2", "epsilon")
_CONSTANTS = ("beta_2", "epsilon")


class Phase(NamedTuple):
    """Updates with the same settings."""

    settings: Settings
    num_steps: int
    seconds: float  # of an update, on the idle machine


class Runs:
    """The runs in the ladder's folder, by `ladder.LadderOptions`."""

    def __init__(self, options: Any):
        self._folder = Path(options.output_dir)
        self._options = options
        files = options.text, options.vocab_file
        self._inputs = Inputs(self._folder, *files, CONFIG)
        self._inputs.check()

    def phases(self, rung: Rung) -> list[Phase]:
        """Returns the phases of a rung, after measuring their updates' time."""
        minutes = rung.share * self._options.baseline_minutes
        minutes = minutes or self._options.minutes
        phases, before = [], 0.0
        for share, changes in rung.phases.items():
            settings = {**rung.settings, **changes}
            layers = rung.grows_from if not before else 0
            seconds = self._inputs.seconds(settings, layers, rung.is_original)
            steps = round(60 * minutes * (share - before) / seconds)
            phases.append(Phase(settings, max(2, steps), seconds))
            before = share
        return phases

    def place(self, rung: Rung, seed: int) -> Path:
        """Returns the folder of a run."""
        return self._folder / f"{rung.name}-{seed}"

    def found(self, rung: Rung) -> dict[int, dict[str, Any]]:
        """Returns seed -> result, of a rung's runs that are done."""
        seeds = range(SEED, SEED + rung.num_seeds)
        places = {seed: self.place(rung, seed) / _RESULT for seed in seeds}
        found = {seed: result_in(path) for seed, path in places.items()}
        return {seed: result for seed, result in found.items() if result}

    def train(self, rung: Rung, seed: int) -> None:
        """Trains and evaluates, or goes on with what was stopped."""
        phases = self.phases(rung)
        place = self.place(rung, seed)
        facts = {
            "phases": [[dict(p.settings), p.num_steps] for p in phases],
            "grows_from": rung.grows_from,
            "average": rung.average,
        }

        def train() -> dict[str, Any]:
            grows = self._grow if rung.grows_from else self._train
            model = grows(rung, phases, place, seed)
            if rung.average:
                kept = CheckpointManager(str(model))
                prefixes = map(kept.prefix, kept.steps())
                model = weights.average(prefixes, model / "average.ckpt")
            seconds = sum(phase.num_steps * phase.seconds for phase in phases)
            found = {
                "minutes": seconds / 60,
                "updates": sum(phase.num_steps for phase in phases),
                "model": str(model),
            }
            for kind in "pairs", "rows":
                folder = place / f"eval_{kind}"
                found[kind] = self._evaluate(model, kind, folder)
            return found

        run_once(place, facts, train)

    def _train(self, rung, phases, place, seed):
        """Trains one phase after the other; returns the last one's folder."""
        total, done, folder = sum(p.num_steps for p in phases), 0, None
        for number, phase in enumerate(phases, start=1):
            more = {"continue_from": folder}
            if folder:  # its weights come from there
                more["first_weights"] = None
            folder, done = place / f"phase_{number}", done + phase.num_steps
            more["stop_at_step"] = done if done < total else None
            if rung.average:
                more["save_checkpoints_steps"] = max(1, total // _SAVES)
                more["keep_checkpoint_max"] = rung.average
            self._pretrain(folder, phase.settings, total, seed, **more)
        return folder

    def _grow(self, rung, phases, place, seed):
        """Trains the first layers, copies them to the others, trains all."""
        first, second = phases
        config = read_json(self._inputs.config_file)
        small_file = place / "small.json"
        small = config | {"num_hidden_layers": rung.grows_from}
        write_json(str(small_file), small)
        total = first.num_steps + second.num_steps
        more = {"stop_at_step": first.num_steps, "bert_config_file": small_file}
        self._pretrain(place / "phase_1", first.settings, total, seed, **more)
        layers = config["num_hidden_layers"]
        stacked = weights.stack(place / "phase_1", place / "stacked", layers)
        # The second phase has its own schedule, from where the first one was.
        rate = second.settings["learning_rate"] * second.num_steps / total
        settings = {**second.settings, "learning_rate": rate}
        del settings["first_weights"]
        folder = place / "phase_2"
        steps = second.num_steps
        self._pretrain(folder, settings, steps, seed, init_checkpoint=stacked)
        return folder

    def _pretrain(self, folder, settings, num_steps, seed, **more):
        """Runs run_pretraining.py --do_train."""
        flags = {k: v for k, v in settings.items() if k not in _NO_FLAGS}
        flags |= {
            "do_train": True,
            "bert_config_file": self._inputs.config_file,
            "vocab_file": self._inputs.vocab_file,
            "input_file": self._inputs.records(settings, "train"),
            "eval_file": self._inputs.records(settings, "eval"),
            "output_dir": folder,
            "num_train_steps": num_steps,
            "num_warmup_steps": max(1, round(settings["warmup"] * num_steps)),
            "eval_every_steps": max(1, num_steps // _CURVE_POINTS),
            "eval_batch_size": _BATCH,
            "max_eval_steps": _CURVE_STEPS,
            "save_checkpoints_steps": max(1, num_steps // 4),
            "keep_checkpoint_max": 1,
            "seed": seed,
        } | more
        program = ["run_pretraining.py"]
        if own := [name for name in _CONSTANTS if name in settings]:
            constants = [f"{name.upper()}={settings[name]}" for name in own]
            program = ["-m", "benchmarks.budget.with_constants", *constants]
        run_with_log(Path(f"{folder}.log"), *program, **flags)

    def _evaluate(self, model, kind, folder):
        """The numbers of a model on held-out examples, alike for all rungs."""
        masking = "dynamic"  # with a seed: the same masks for all
        settings = {"records": kind, "masking": masking}
        settings["max_seq_length"] = LENGTH
        run_with_log(
            Path(f"{folder}.log"),
            "run_pretraining.py",
            do_eval=True,
            bert_config_file=self._inputs.config_file,
            vocab_file=self._inputs.vocab_file,
            init_checkpoint=model,
            input_file=self._inputs.records(settings, "eval"),
            output_dir=folder,
            masking=masking,
            max_seq_length=LENGTH,
            max_predictions_per_seq=PREDICTIONS,
            eval_batch_size=_BATCH,
            max_eval_steps=_EVAL_STEPS,
        )
        return read_eval_results(str(folder / "eval_results.txt"))

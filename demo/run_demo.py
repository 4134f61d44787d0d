r"""Pretrains a small BERT from raw text in a few minutes: `make demo`.

    python -m demo.run_demo

    python -m demo.run_demo --text=my.txt

It runs the project's programs one after the other and prints each command. Use
them with your own text, sizes and numbers of steps.
"""

import collections
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

from data.settings import Settings, amount, optional, positive, setting
from data.storage import files, locks
from data.text.tokenization import FullTokenizer
from demo import sizes
from demo.sizes import Sizes
from training import program
from training.config import flags, recipes

LENGTH = 64
PREDICTIONS = 10
_EVAL_BATCH = 64
PARTS = {"train": 10, "eval": 5}  # text and records -> copies of the text
_KINDS = ("txt", "tf_record", "tf_record.manifest.json")
_FILES = [f"{part}.{kind}" for part in PARTS for kind in _KINDS]
_FILES += ["vocab.txt", "bert_config.json", "questions.txt", "page.html"]
_MARK = "made_by_the_demo.txt"  # its folder may be replaced
_NUM_QUESTIONS = 6
_WORD = re.compile(r"[^\W\d_]+[,.।]?")


class DemoOptions(Settings):
    """Options of the demo."""

    text: str | None = optional("Your own UTF-8 text file.")
    output_dir: str = setting("build/demo", "Folder that each run replaces.")
    vocab_size: int | None = optional(
        "Most wordpieces; small texts get fewer. Default 5000 or by --minutes.",
        least=1,
    )
    minutes: float = amount(
        0.0, "Training time, which chooses the model; 0 = train by steps."
    )
    num_train_steps: int = positive(
        2800, "Most training steps; a small --text gets fewer."
    )


def main() -> None:
    """Runs the steps of the demo."""
    options = flags.read(DemoOptions)
    with locks.sole_use(options.output_dir):
        _demo(options)


def _demo(options: DemoOptions) -> None:
    """Runs the steps in the folder, which no other demo uses."""
    start = time.monotonic()
    out = Path(options.output_dir)
    _clear(out, options.text)
    own = [f"--text={options.text}"] if options.text else []
    parts = [f"--{x}_output={out}/{x}.txt" for x in ("train", "eval")]
    _run("-m", "demo.corpus", *parts, *own)
    path = f"{out}/train.txt"
    chosen = sizes.of_text(path, options.vocab_size, options.minutes)
    facts = [f"{options.text or 'Documentation of Python'}: {chosen.reason}."]
    print("", *facts, sep="\n")
    make_records(out, chosen)
    program.load_tensorflow()
    _pretrain(out, chosen.model, _duration(out, options, chosen.model))
    facts += _show_results(out)
    fillings = _show_fillings(out, chosen.do_lower_case)
    from demo import page  # after TensorFlow

    path = page.write(out, facts, fillings, chosen.do_lower_case)
    print(f"\nFilled masks, neighbors of words and attention: {path}")
    print(
        f"\nDone in {time.monotonic() - start:.0f} s. Everything is in {out}; "
        f"the curves: {sys.executable} -m tensorboard.main --logdir {out}/model"
    )


def _clear(out: Path, text: str | None) -> None:
    """Removes the files of an earlier demo, and nothing else.

    Raises ValueError if the text is in the folder, or the folder is not a
    demo's.
    """
    if text:
        files.require_file(text, "text")
        if Path(text).resolve().is_relative_to(out.resolve()):
            raise ValueError(f"{text} is in {out}, which is replaced; move it.")
        sizes.check(text)
    out.mkdir(parents=True, exist_ok=True)
    held = {path.name for path in out.iterdir()} - {locks.NAME}
    if held and _MARK not in held:
        raise ValueError(
            f"--output_dir={out} holds {min(held)} and no {_MARK}, so a demo "
            "may not replace it; give a new folder, or empty this one."
        )
    shutil.rmtree(out / "model", ignore_errors=True)
    for name in _FILES:
        (out / name).unlink(missing_ok=True)
    files.write_text(str(out / _MARK), "The next demo replaces this folder.\n")


def make_records(out: Path, chosen: Sizes) -> None:
    """Writes vocabulary and records of the texts in the demo's folder."""
    case = _case_flags(chosen.do_lower_case)
    # A text about BERT may have this token. In others it changes nothing.
    text = "".join(files.read_lines(f"{out}/train.txt"))
    whole = ["--never_split=[MASK]"] if "[MASK]" in text else []
    _run(
        "build_vocab.py",
        f"--input_file={out}/train.txt",
        f"--output_file={out}/vocab.txt",
        f"--vocab_size={chosen.vocab_size}",
        *case,
    )
    for part, copies in PARTS.items():
        _run(
            "create_pretraining_data.py",
            f"--input_file={out}/{part}.txt",
            f"--output_file={out}/{part}.tf_record",
            f"--vocab_file={out}/vocab.txt",
            f"--max_seq_length={LENGTH}",
            f"--max_predictions_per_seq={PREDICTIONS}",
            f"--dupe_factor={copies}",
            *(case + whole),
        )


def _duration(out: Path, options: DemoOptions, model: recipes.Sizes) -> str:
    """Returns the flag of the minutes, or of fewer updates for a small text."""
    most = options.num_train_steps
    if options.minutes:  # rows of half the length that the table is of
        most = round(2 * options.minutes * model.updates_per_minute)
    wordpieces = model.train_batch_size * LENGTH
    steps = sizes.num_train_steps(f"{out}/train.tf_record", wordpieces, most)
    if options.minutes and steps == most:
        return f"--num_train_minutes={options.minutes:g}"
    if options.minutes:
        print(f"\nToo little text for --minutes: {steps:,} updates instead.")
    return f"--num_train_steps={steps}"


def _pretrain(out: Path, model: recipes.Sizes, duration: str) -> None:
    """Trains and evaluates a small model."""
    vocab_size = sum(1 for _ in files.read_lines(f"{out}/vocab.txt"))
    from data.records import reading  # after TensorFlow

    layers, width = model.num_hidden_layers, model.hidden_size
    config_file = f"{out}/bert_config.json"
    sizes.write_config(config_file, vocab_size, layers, width, LENGTH)
    num_eval = reading.count_records(f"{out}/eval.tf_record")
    _run(
        "run_pretraining.py",
        "--recipe=budget",
        "--do_train",
        "--do_eval",
        f"--input_file={out}/train.tf_record",
        f"--eval_file={out}/eval.tf_record",
        f"--output_dir={out}/model",
        *_model_flags(out),
        f"--train_batch_size={model.train_batch_size}",
        duration,
        "--fuse",
        f"--eval_batch_size={_EVAL_BATCH}",
        f"--max_eval_steps={max(1, num_eval // _EVAL_BATCH)}",
    )


def _show_results(out: Path) -> list[str]:
    """Prints the evaluation and baselines without a model; returns them."""
    from training.loop import events

    results = events.read_eval_results(f"{out}/model/eval_results.txt")
    piece, commonest, majority = _baselines(out)
    masked = results["masked_lm_accuracy"]
    following = results["next_sentence_accuracy"]
    facts = [
        "On documents that share no sentence with the training text:",
        f"  masked words right        {masked:7.1%}   (always answering "
        f"{piece!r}, the most frequent wordpiece: {commonest:.1%})",
        f"  next sentences right      {following:7.1%}   (always giving the "
        f"more frequent answer: {majority:.1%})",
    ]
    print("", *facts, sep="\n")
    return facts


def _baselines(out: Path) -> tuple[str, float, float]:
    """Returns the most frequent wordpiece, its share and the majority's."""
    import tensorflow as tf

    from data.records import feature_spec, reading

    specs = feature_spec.pretraining_features(LENGTH, PREDICTIONS)
    pieces, labels = collections.Counter(), collections.Counter()
    for batch in tf.data.TFRecordDataset(f"{out}/eval.tf_record").batch(1000):
        features = reading.parse_batch(specs, batch)
        real = features["masked_lm_weights"] > 0
        pieces.update(features["masked_lm_ids"][real].numpy().tolist())
        labels.update(features["next_sentence_labels"][:, 0].numpy().tolist())
    ((commonest, count),) = pieces.most_common(1)
    vocab = list(files.read_lines(f"{out}/vocab.txt"))
    majority = max(labels.values()) / labels.total()
    return vocab[commonest], count / pieces.total(), majority


def _show_fillings(out: Path, do_lower_case: bool) -> list[tuple]:
    """Masks a word in some evaluation sentences and prints the predictions.

    Returns each sentence, the masked word, and wordpieces with probabilities.
    """
    questions = _questions(out, do_lower_case)
    lines = "".join(f"{question}\n" for question, _ in questions)
    files.write_text(f"{out}/questions.txt", lines)
    _run(
        "run_pretraining.py",
        "--do_predict",
        f"--predict_file={out}/questions.txt",
        f"--vocab_file={out}/vocab.txt",
        f"--output_dir={out}/model",
        *_model_flags(out),
        *_case_flags(do_lower_case),
        stdout=subprocess.DEVNULL,
    )
    print("\nThe five best predictions (and the masked word):")
    answers = files.read_lines(f"{out}/model/predict_results.jsonl")
    found = []
    for (question, word), line in zip(questions, answers, strict=True):
        fillings = json.loads(line)["masks"][0]
        best = "  ".join(f"{piece} {share:.0%}" for piece, share in fillings)
        print(f"  {question}\n      {best}   ({word})")
        found.append((question, word, fillings))
    return found


def _questions(out: Path, do_lower_case: bool) -> list[tuple[str, str]]:
    """Returns sentences of the whole text with a masked word, and the word.

    In a text without spaces the word is a character.
    """
    tokenizer = FullTokenizer(f"{out}/vocab.txt", do_lower_case)
    vocab = tokenizer.vocab
    found = []
    for line in files.read_lines(f"{out}/eval.txt"):
        words, space, least, most, shortest = line.split(), " ", 6, 14, 3
        if len(words) == 1:
            words, space, least, most, shortest = [*line], "", 10, 40, 1
        is_good = least <= len(words) <= most
        if space:
            is_good &= all(_WORD.fullmatch(_letters(w)) for w in words)
        # With [CLS] and [SEP].
        is_good = is_good and len(tokenizer.encode(line)) <= LENGTH - 2
        middle = len(words) // 2
        places = sorted(range(len(words)), key=lambda i: abs(i - middle))
        for i in places if is_good else ():
            word = words[i]
            # One [MASK] is one wordpiece.
            piece = word.lower() if do_lower_case and space else word
            is_long = len(_letters(word)) >= shortest
            if is_long and piece in vocab and _letters(word).isalnum():
                masked = [*words[:i], "[MASK]", *words[i + 1 :]]
                found.append((space.join(masked), word))
                break
    if not found:
        return [("This is the [MASK] of the text.", "end")]
    return found[:: max(1, len(found) // _NUM_QUESTIONS)][:_NUM_QUESTIONS]


def _letters(word: str) -> str:
    """Returns a word without combining marks, such as the vowels of Hindi."""
    return "".join(c for c in word if unicodedata.category(c)[0] != "M")


def _case_flags(do_lower_case: bool) -> list[str]:
    return [] if do_lower_case else ["--do_lower_case=false"]


def _model_flags(out: Path) -> list[str]:
    return [
        f"--bert_config_file={out}/bert_config.json",
        f"--max_seq_length={LENGTH}",
        f"--max_predictions_per_seq={PREDICTIONS}",
    ]


def _run(*arguments: str, stdout: int | None = None) -> None:
    """Prints a command and runs it; ends the demo if it fails."""
    print(f"\n$ python {shlex.join(arguments)}", flush=True)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, stdout=stdout, check=False)
    if done.returncode:
        sys.exit(f"error: the command above ended with {done.returncode}.")


if __name__ == "__main__":
    flags.define(DemoOptions)
    program.run(main)

r"""Compares a run's outputs with those of its ONNX file, on real texts.

  python tests/by_hand/onnx_agreement.py --model=/tmp/sts --onnx=/tmp/sts_onnx \
    --texts=texts.tsv --python=/tmp/onnx/bin/python

docs/smaller.md makes the file. --texts has a text on each line, or two with a
tab between. Each side makes its own wordpieces, and computes one text after
the other. Fails if wordpieces differ, or an output by more than 1e-4.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from absl import app, flags

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import modeling  # noqa: E402
from data.text import packing  # noqa: E402

FLAGS = flags.FLAGS
TOLERANCE = 1e-4
THEIRS = """
import sys
import numpy as np, onnxruntime, transformers
folder, texts, found = sys.argv[1:]
session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
answers = {}
for number, line in enumerate(open(texts, encoding="utf-8")):
    row = tokenizer(*line.strip().split("\\t"), return_tensors="np")
    row = {name: value.astype(np.int64) for name, value in row.items()}
    answers[f"ids{number}"] = row["input_ids"]
    outputs = session.run(None, row)
    # Of a model for questions there are two.
    values = np.stack(outputs, -1) if outputs[1:] else outputs[0]
    answers[f"out{number}"] = values
np.savez(found, **answers)
"""


def ours(loaded, line):
    """Wordpieces and logits of a line."""
    both = [loaded.tokenizer.encode(x) for x in line.strip().split("\t")]
    ids = loaded.tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    cls_sep = dict(zip(("cls_id", "sep_id"), ids, strict=True))
    row = packing.add_special_tokens(*both, *[[]] * (2 - len(both)), **cls_sep)
    ids, segments = (np.array([x], np.int32) for x in row)
    batch = {"input_ids": ids, "segment_ids": segments}
    batch["input_mask"] = np.ones_like(ids)
    return ids, np.array(loaded.model.logits(batch))


def main(_):
    """Exits with 1 if they do not agree."""
    lines = Path(FLAGS.texts).read_text("utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        found = f"{folder}/found.npz"
        command = [FLAGS.python, "-c", THEIRS, FLAGS.onnx, FLAGS.texts, found]
        subprocess.run(command, check=True)
        theirs = dict(np.load(found))
    loaded = modeling.load(FLAGS.model)
    worst = largest = different = 0
    for number, line in enumerate(lines):
        ids, logits = ours(loaded, line)
        if not np.array_equal(ids, theirs[f"ids{number}"]):
            different += 1
            continue
        difference = np.abs(logits - theirs[f"out{number}"])
        worst = max(worst, difference.max())
        largest = max(largest, np.abs(logits).max())
    print(
        f"{len(lines)} texts: {different} with other wordpieces; greatest "
        f"difference {worst:.1e}, of outputs up to {largest:.2f}"
    )
    sys.exit(int(different > 0 or worst > TOLERANCE))


if __name__ == "__main__":
    flags.DEFINE_string("model", None, "A finished run.", required=True)
    flags.DEFINE_string("onnx", None, "Folder of its file.", required=True)
    flags.DEFINE_string("texts", None, "Texts, one a line.", required=True)
    flags.DEFINE_string("python", None, "Of the file's environment.")
    app.run(main)

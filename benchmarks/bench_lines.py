"""What the benchmarks print, as numbers."""

import re


def _numbers(pattern, text):
    """The groups of the only match.

    Raises:
      ValueError: there is none.
    """
    found = re.search(pattern, text, re.M)
    if not found:
        raise ValueError(f"no {pattern!r} in what was printed:\n{text[-2000:]}")
    return [float(group.replace(",", "")) for group in found.groups()]


def train_step(text):
    """train_step.py: its step and the rates it is compared with.

    Args:
      text: what it printed.

    Returns:
      `ms`, best; `gflops`; `matrix_rate`, of one large product, in GFLOP/s;
      `share`, of that; `own_shapes`, of the rate of the step's own products.
    """
    (ms,) = _numbers(r"step ([\d.]+) ms best", text)
    gflops, share, rate = _numbers(
        r"([\d.]+) GFLOP/s = ([\d.]+)% of the matrix rate ([\d.]+)", text
    )
    _, alone = _numbers(r"products alone ([\d.]+) ms = ([\d.]+)%", text)
    return {
        "ms": ms,
        "gflops": gflops,
        "matrix_rate": rate,
        "share": share / 100,
        "own_shapes": alone / 100,
    }


def epochs(text):
    """finetuning_epoch.py: way of reading -> seconds of an epoch.

    Args:
      text: what it printed.
    """
    found = re.findall(r"[:;] ([^:;]+?) ([\d.]+) s an epoch", text)
    ways = {way: float(seconds) for way, seconds in found}
    if "padded" not in ways or len(ways) < 2:
        raise ValueError(f"no two ways in what was printed:\n{text[-2000:]}")
    return ways


def tokenization(text):
    """tokenization.py: MB/s of both tokenizers, ids alone, warm.

    Args:
      text: what it printed.
    """
    _, python = _numbers(
        r"^encode: ([\d.]+) MB/s the first time, ([\d.]+) MB/s", text
    )
    (in_graph,) = _numbers(r"^in the graph, tokenize: ([\d.]+) MB/s", text)
    return {"python": python, "in_graph": in_graph}


def pretraining_data(text):
    """pretraining_data.py: its table.

    Args:
      text: what it printed.

    Returns:
      (processes, length) -> `examples_per_s`, `text_mb_per_s`, `peak_mb`.
    """
    rows = re.findall(
        r"^ *(\d+) +(\d+) +([\d,]+) +([\d.]+) +([\d,]+) *$", text, re.M
    )
    if not rows:
        raise ValueError(f"no row in what was printed:\n{text[-2000:]}")
    return {
        (int(processes), int(length)): {
            "examples_per_s": float(examples.replace(",", "")),
            "text_mb_per_s": float(megabytes),
            "peak_mb": float(peak.replace(",", "")),
        }
        for processes, length, examples, megabytes, peak in rows
    }


def reading(text):
    """input_pipeline.py: examples/s of one device, as training reads them.

    Args:
      text: what it printed.
    """
    (rate,) = _numbers(r"^1 device +static +([\d,]+) ", text)
    return rate

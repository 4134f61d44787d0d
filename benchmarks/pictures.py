"""The pictures of bench.py."""

from matplotlib import colormaps
from matplotlib.figure import Figure

from training import curves

_LIGHT = 0.6  # numbers are black on colours lighter than this


def draw(results, folder, machine):
    """Draws the pictures whose rows were measured; returns the files."""
    drawn = []
    for row, (name, size, picture) in {
        "step_by_length": ("bench_lengths.png", (7, 4.2), _lengths),
        "records": ("bench_records.png", (9, 4), _records),
        "step_by_part": ("bench_parts.png", (10, 4.6), _parts),
    }.items():
        if row in results:
            figure = Figure(size, layout="constrained")
            title = picture(figure, results[row])
            figure.suptitle(f"{title}\n{machine}", fontsize="medium")
            curves.save(figure, str(folder / name))
            drawn.append(folder / name)
    return drawn


def _lengths(figure, rates):
    """Throughput against sequence length; returns the title."""
    axis = figure.subplots()
    for precision, row in rates.items():
        lengths = [int(length) for length in row]
        thousands = [rate / 1000 for rate in row.values()]
        axis.plot(lengths, thousands, "o-", label=precision)
    axis.set_xscale("log", base=2)
    axis.set_xticks(lengths, [str(length) for length in lengths])
    axis.set_ylim(bottom=0)
    axis.set_xlabel("sequence length (wordpieces)")
    axis.set_ylabel("throughput (1,000 wordpieces/s)")
    axis.grid(alpha=0.3)
    axis.legend(loc="lower left", title="arithmetic")
    return "A pretraining step of 4 layers x 256, 4,096 wordpieces a batch"


def _records(figure, values):
    """Seconds and memory against the size of the text; returns the title."""
    axes = figure.subplots(1, 2)
    for processes in (1, 2):
        row = [p for p in values["points"] if p["processes"] == processes]
        sizes = [point["text_mb"] for point in row]
        label = f"{processes} process{'es' if processes > 1 else ''}"
        for axis, key in zip(axes, ("seconds", "peak_mb"), strict=True):
            axis.plot(sizes, [p[key] for p in row], "o-", label=label)
    axes[0].set_ylabel("time but for the imports (s)")
    axes[1].set_ylabel("peak memory of all processes (MB)")
    for axis in axes:
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("size of the text (MB)")
        axis.grid(alpha=0.3)
        axis.legend(loc="lower right")
    return "Making pretraining records: length 128, dupe_factor 10"


def _parts(figure, shares):
    """Share of time per part, a bar for each model; returns the title."""
    axis = figure.subplots()
    names = list(shares)
    parts = list(next(iter(shares.values())))
    lefts = [0.0] * len(names)
    for color, part in zip(colormaps["tab10"].colors, parts, strict=False):
        widths = [100 * shares[name][part] for name in names]
        bars = axis.barh(names, widths, left=lefts, color=color, label=part)
        light = sum(color) / len(color) > _LIGHT
        style = {"color": "black" if light else "white", "fontsize": "small"}
        labels = [f"{width:.0f}" if width >= 2 else "" for width in widths]
        axis.bar_label(bars, labels, label_type="center", **style)
        lefts = [a + b for a, b in zip(lefts, widths, strict=True)]
    axis.invert_yaxis()
    axis.set_xlim(0, 100)
    axis.set_xlabel("share of the step's time (%)")
    axis.set_ylabel("model, arithmetic")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small")
    return "What a pretraining step of 32 x 128 spends its time on"

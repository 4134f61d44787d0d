"""The page of check-gpu's results, in Markdown."""

from benchmarks.tables import table

# The table of docs/gpu.md, to which `row` belongs.
COLUMNS = (
    "GPUs",
    "TensorFlow, driver",
    "checks passed",
    "60 losses, TF32 off / on",
    "Base, 128",
    "Base, 512",
    "Large, 128",
    "Large, 512",
)
_TEXTS = {True: "yes", False: "**NO**"}


def make(results: dict[str, dict]) -> str:
    """Returns the page of `main.check`."""
    parts = [
        f"# check-gpu: {_gpus(results)}",
        table(("machine", ""), results["machine"]["figures"].items()),
        "A row for the table of docs/gpu.md:",
        table(COLUMNS, [row(results)]),
        "## Checks",
        _checks(results),
        "## Speed",
        _speeds(results),
        *_kernels(results),
        *_placement(results["placement"]["figures"]),
        "",
    ]
    return "\n\n".join(parts)


def row(results: dict[str, dict]) -> list[str]:
    """Returns the cells of `COLUMNS`."""
    machine = results["machine"]["figures"]
    checks = [x for result in results.values() for x in result["checks"]]
    passed = sum(check["passed"] for check in checks)
    broken = sum(bool(result["error"]) for result in results.values())
    text = f"{passed} of {len(checks)}"
    differences = [
        f"{found['largest_difference']:.1g}"
        for name in ("float32", "tf32")
        if (found := results["goldens"]["figures"].get(name))
    ]
    driver = (machine.get("driver") or ["", "none"])[-1].split(", ")
    return [
        _gpus(results),
        f"{machine.get('tensorflow')}, {driver[min(1, len(driver) - 1)]}",
        text + (f", {broken} parts not done" if broken else ""),
        " / ".join(differences),
        *(
            _best(results, model, length)
            for model in ("base", "large")
            for length in (128, 512)
        ),
    ]


def _best(results, model, length):
    """The fastest batch of a model and length, fused or by XLA."""
    start = f"speed, {model}, {length}, "
    found = [
        (batch["sequences_per_s"], batch["rows"], name.removeprefix(start))
        for name, result in results.items()
        if name.startswith(start)
        for batch in result["figures"].get("batches", [])
    ]
    if not found:
        return ""
    rate, rows, form = max(found)
    return f"{rate:,.1f}/s (x {rows}, {form})"


def _gpus(results):
    found = results["machine"]["figures"].get("gpus", [])
    names = [gpu["name"] for gpu in found]
    counts = (f"{names.count(x)} x {x}" for x in sorted({*names}))
    return ", ".join(counts) or "no GPU"


def _checks(results):
    rows = []
    for part, result in results.items():
        left_out = result["figures"].get("left_out")
        note = f"left out: {left_out}" if left_out else result["error"]
        if note or not result["checks"]:
            rows.append((part, "", result["status"], note.strip()[-800:]))
        rows += [
            (part, check["name"], _TEXTS[check["passed"]], check["text"])
            for check in result["checks"]
        ]
    return table(("part", "check", "passed", "found"), rows)


def _speeds(results):
    rows = []
    for name, result in results.items():
        first = name.split(", ")[1:]
        for batch in result["figures"].get("batches", []):
            cells = [batch["rows"], f"{batch['sequences_per_s']:,.1f}"]
            cells += [f"{batch['peak_gb']:.1f}", f"{batch['compile_s']:.0f}"]
            rows.append([*first, *cells])
        if note := result["figures"].get("stopped"):
            rows.append((*first, note, "", "", ""))
    columns = ["model", "length", "form", "micro-batch", "sequences/s"]
    columns += ["peak memory, GB", "first call, s"]
    text, scaling = table(columns, rows), results["scaling"]["figures"]
    if "ratio" in scaling:
        text += (
            f"\n\n{scaling['devices']} devices: {scaling['ratio']:.2f} times "
            "the sequences/s of one, with as many sequences on each."
        )
    return text


def _kernels(results):
    """A table for each profile, or why there is none."""
    for name, result in results.items():
        found = result["figures"].get("kernels")
        if not found:
            continue
        yield f"## Longest kernels: {name}"
        if "error" in found:
            yield f"Not known: {found['error']}"
            continue
        columns = "kernel", "ms in a step", "starts in a step"
        rows = [
            (f"`{x['name'][:90]}`", f"{x['ms']:.3f}", f"{x['starts']:.0f}")
            for x in found["kernels"]
        ]
        yield table(columns, rows)


def _placement(figures):
    """Operations of a step that run on the host, and copies between both."""
    if not figures:
        return
    yield "## On the host"
    on_host = figures["on_host"]
    counts = ", ".join(f"{count} {name}" for name, count in on_host.items())
    total = f"{sum(on_host.values())} of {figures['operations']} operations"
    yield f"{total} of a step: {counts}"
    copies = figures["copies"]
    if "error" in copies:
        yield f"Copies are not known: {copies['error']}"
        return
    rows = [
        (x["direction"], x["operation"], f"{x['mb']:.3f}", f"{x['number']:g}")
        for x in copies["copies"]
    ]
    yield table(("copy", "operation", "MB in a step", "number"), rows)

"""Manifests: JSON files that say what other files were made from."""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from data.storage import files
from data.storage.json_files import find_json, require_names

# What `made_from` says of the ids and labels of records.
OF_TEXT = ("vocab_sha256", "do_lower_case", "sentence_order_prediction")
_SHARD_SUFFIX = re.compile(r"-\d{5}-of-(\d{5})$")


def data_set_name(paths: Sequence[str]) -> str:
    """Returns `out` for `out-00000-of-00064`; otherwise the first path."""
    return _SHARD_SUFFIX.sub("", paths[0])


def path_of(paths: Sequence[str]) -> str:
    """Returns the path of a data set's manifest: `out@64.manifest.json`."""
    # `out` and `out@4` are two data sets, which may be there together.
    name = _SHARD_SUFFIX.sub(lambda found: f"@{int(found[1])}", paths[0])
    return name + files.MANIFEST_SUFFIX


def remove(paths: Sequence[str]) -> None:
    """Removes what describes files that are about to be replaced."""
    for path in paths:
        files.remove(path_of([path]))


def read(path: str) -> dict[str, Any]:
    """Reads the manifest of an earlier run; {} if there is none, or damaged."""
    with contextlib.suppress(ValueError):
        return find_json(path)
    return {}


def of_shard(path: str) -> dict[str, Any]:
    """Reads the manifest of a shard's data set; {} = no manifest lists it.

    It has `made_from`, `counts` and `shards`.
    """
    manifest = read(path_of([path]))
    with contextlib.suppress(KeyError, TypeError):
        if os.path.basename(path) in {x["file"] for x in manifest["shards"]}:
            return manifest
    return {}


def require_one_text(paths: Sequence[str], facts: Mapping[str, Any]) -> None:
    """Refuses to write some shards beside others that differ in `OF_TEXT`.

    `facts` are what the `paths` will be made from. Raises ValueError.
    """
    for path in dict.fromkeys(path_of([path]) for path in paths):
        known = read(path).get("made_from", {})
        changed = [x for x in OF_TEXT if known.get(x, facts[x]) != facts[x]]
        name = path.removesuffix(files.MANIFEST_SUFFIX)
        others = {*files.expand_shards(name)} - {*paths}
        if changed and any(map(files.exists, others)):
            flag = changed[0].replace("vocab_sha256", "vocab_file")
            raise ValueError(
                f"--output_file: {name} has other shards, made with another "
                f"--{flag}; give that one, or write all shards."
            )


def require_same(
    path: str, made_from: Mapping[str, Any], remedy: str, key: str = "made_from"
) -> dict[str, Any] | None:
    """Reads what a folder's files were made from; None if it is unknown.

    `key` is the name of the facts in the manifest. Raises ValueError, with what
    differs and the remedy, if they are not `made_from`, or the manifest is
    damaged.
    """
    manifest = find_json(path, (key,), remedy)
    before = require_names(manifest.get(key, {}), path, (), remedy)
    if manifest and (changed := changes(before, made_from)):
        raise ValueError(
            f"{os.path.dirname(path)} was made with different flags or data: "
            f"{'; '.join(changed)}; {remedy}."
        )
    return manifest or None


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns what differs between two `made_from`, one entry for each name.

    An option that one of them lacks is not set, such as 0, [] or "". Of
    checksums, only the name is shown: `examples (sha256)`.
    """
    return [
        f"{name.removesuffix('_sha256')} (sha256)"
        if name.endswith("_sha256")
        else f"{name.rpartition('.')[2]} {before.get(name)} -> {now.get(name)}"
        for name in sorted(before.keys() | now.keys())
        if (before.get(name) or None) != (now.get(name) or None)
    ]


def is_complete(path: str, sha256: str) -> bool:
    """Whether a file exists with this checksum."""
    return files.exists(path) and files.sha256(path) == sha256

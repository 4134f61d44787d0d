"""What the manifests beside record files say about their text."""

import os

from data.storage import files, manifests


def read_facts(patterns: str) -> tuple[int | None, int | None]:
    """Reads the manifests beside record files.

    A manifest that does not list a file, or lists it with another size, is
    ignored. Raises ValueError if the vocabularies differ in size. Returns the
    size of the vocabulary and the number of wordpieces of the text, each
    counted once; None = no manifest has it.
    """
    counts, sizes = {}, {}
    for path in files.expand_patterns(patterns):
        manifest, name = manifests.of_shard(path), os.path.basename(path)
        shards = manifest.get("shards", ())
        found = [x["counts"].get("bytes") for x in shards if x["file"] == name]
        if found != [files.size(path)]:
            return None, None
        # Files of one command, and of two with other seeds, have one text.
        text = repr(manifest["made_from"].get("corpus", manifest["counts"]))
        counts[text] = manifest["counts"]["wordpieces"]
        sizes.setdefault(manifest.get("vocab_size"), path)
    if len(sizes) > 1:
        found = ", ".join(f"{path} of {n}" for n, path in sizes.items())
        raise ValueError(
            f"the records were made with several vocabularies: {found} "
            "wordpieces; make all with one --vocab_file."
        )
    return next(iter(sizes)), sum(counts.values())

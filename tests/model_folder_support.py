"""Folders of models, made of the goldens."""

import shutil


def write_original(goldens, folder):
    """A folder as the original released them, of the golden model."""
    folder.mkdir(parents=True)
    trained = goldens / "model/trained/model.ckpt-60"
    for ending in ".index", ".data-00000-of-00001":
        shutil.copy(f"{trained}{ending}", folder / f"bert_model.ckpt{ending}")
    shutil.copy(goldens / "bert_config.json", folder)
    shutil.copy(goldens / "vocab.txt", folder)
    return folder

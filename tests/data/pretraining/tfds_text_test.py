import itertools
import json
import multiprocessing
import os
import signal
import sys
import threading
import time

import pytest

from data import tfds
from data.pretraining import tfds_text
from tests.support import fork_server
from tests.support.run_files import rows_in
from tests.support.tfds_support import (
    ARTICLE,
    PLAIN,
    TITLE_ONLY,
    prepare_texts,
    text_of,
)


def write(data_dir, folder, name="my_set", **options):
    text = tfds_text.TfdsText(name, data_dir=str(data_dir), **options)
    return tfds_text.write_text_files(text, str(folder))


def write_in_a_process(data_dir, folder, name="my_set", **options):
    text = tfds_text.TfdsText(name, data_dir=data_dir, **options)
    return tfds_text.write_text_files_in_a_process(text, str(folder))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    prepare_texts(folder, "my_set", PLAIN)
    prepare_texts(folder, "articles", [ARTICLE, TITLE_ONLY], config="en")
    return str(folder)


def test_documents_are_whole_and_in_the_order_of_the_files(data_dir, tmp_path):
    # The order as the files have it, read without tensorflow-datasets.
    shards = [
        f"{data_dir}/my_set/1.2.0/my_set-train.tfrecord-0000{i}-of-00002"
        for i in range(2)
    ]
    numbers = [row["id"][0] for path in shards for row in rows_in(path)]
    assert sorted(numbers) == list(range(40)) != numbers
    (path,) = write(data_dir, tmp_path)
    assert path == f"{tmp_path}/text-00000.txt"
    expected = "".join(f"Text {i}.\nCafé {i}!\n\n" for i in numbers)
    assert text_of([path]).decode() == expected
    asked = {"tfds": "my_set", "split": "train", "data_dir": data_dir}
    size = {"num_documents": 40, "bytes": len(expected.encode())}
    assert json.loads((tmp_path / "text.json").read_text()) == {
        "asked": asked | {"text_key": None, "max_bytes": 256 << 20},
        "data_set": "my_set/1.2.0",
        "text_key": "text",
        "num_empty_documents": 0,
        **size,
        "files": [{"name": "text-00000.txt"} | size],
    }


@pytest.mark.parametrize("name", ["articles/en", "articles/en:1.2.0"])
def test_of_wiki40b_the_paragraphs_are_text(data_dir, tmp_path, name, logged):
    paths = write(data_dir, tmp_path, name)
    assert text_of(paths) == b"One. Two.\nThree.\nFour.\n\n"
    assert "articles/en/1.2.0: 1 documents, 24 bytes" in logged.text
    assert "left out 1 without text" in logged.text


def test_files_end_between_documents_before_they_grow_too_long(
    data_dir, tmp_path
):
    whole = text_of(write(data_dir, tmp_path / "whole"))
    # A document has 18 to 20 bytes: two fit in 50, none in 10.
    for max_bytes, num_files in (50, 20), (10, 40):
        paths = write(data_dir, tmp_path / str(max_bytes), max_bytes=max_bytes)
        assert [os.path.basename(path) for path in paths] == [
            f"text-{i:05d}.txt" for i in range(num_files)
        ]
        assert all(text_of([path]).endswith(b"\n\n") for path in paths)
        assert text_of(paths) == whole


def test_finished_text_is_used_again(data_dir, tmp_path, monkeypatch, logged):
    paths = write(data_dir, tmp_path)
    with monkeypatch.context() as patched:
        patched.delattr(tfds, "open_text")
        for again in write, write_in_a_process:
            assert again(data_dir, tmp_path) == paths
            assert "Using the text of my_set/1.2.0 that" in logged.messages[-1]
    before = text_of(paths)
    with open(paths[0], "ab") as file:
        file.write(b"more")
    assert write(data_dir, tmp_path) == paths
    assert f"{paths[0]} is gone or was changed; reading" in logged.text
    assert text_of(paths) == before


def test_other_text_is_not_overwritten(data_dir, tmp_path):
    write(data_dir, tmp_path)
    changed = "split train -> test; tfds my_set -> articles/en"
    with pytest.raises(ValueError, match=f"{changed}; give another --output_f"):
        write_in_a_process(data_dir, tmp_path, "articles/en", split="test")
    (tmp_path / "text.json").write_text('{"mine": 1}')
    with pytest.raises(ValueError, match="text.json is damaged: no asked; gi"):
        write(data_dir, tmp_path)


def test_a_run_that_ended_early_begins_again(data_dir, tmp_path, monkeypatch):
    whole = text_of(write(data_dir, tmp_path / "whole", max_bytes=300))

    def open_half(*arguments, inner=tfds.open_text):
        opened = inner(*arguments)

        def read_half():
            yield from itertools.islice(opened.texts, 20)
            raise KeyboardInterrupt

        return opened._replace(texts=read_half())

    with monkeypatch.context() as patched:
        patched.setattr(tfds, "open_text", open_half)
        with pytest.raises(KeyboardInterrupt):
            write(data_dir, tmp_path / "half", max_bytes=300)
    # Whole files, no half-written one, and no word of being finished.
    assert os.listdir(tmp_path / "half") == ["text-00000.txt"]
    assert text_of(write(data_dir, tmp_path / "half", max_bytes=300)) == whole


@pytest.mark.all
def test_the_process_takes_tensorflow_with_it(data_dir, tmp_path):
    program = """
import sys
from data.pretraining import tfds_text
text = tfds_text.TfdsText("my_set", data_dir=sys.argv[2])
print(tfds_text.write_text_files_in_a_process(text, sys.argv[1]))
print("tensorflow" in sys.modules)
"""
    done = fork_server.cold_python("-c", program, str(tmp_path), data_dir)
    paths, loaded = done.stdout.splitlines()
    assert paths == f"['{tmp_path}/text-00000.txt']"
    assert loaded == "False"


def act_when_a_process_runs(act):
    """Calls act(process) as soon as this one has started another."""

    def wait():
        while not (processes := multiprocessing.active_children()):
            time.sleep(0.01)
        act(processes[0])

    threading.Thread(target=wait, daemon=True).start()


def test_a_killed_process_is_an_error(data_dir, tmp_path):
    act_when_a_process_runs(lambda process: process.kill())
    with pytest.raises(OSError, match="a worker process was killed, .*memory"):
        write_in_a_process(data_dir, tmp_path)


@pytest.mark.all
@pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)],
)
def test_an_interrupt_ends_the_process_too(
    data_dir, tmp_path, number, error, request
):
    # What the programs do at SIGTERM.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    request.addfinalizer(lambda: signal.signal(signal.SIGTERM, before))
    act_when_a_process_runs(lambda _: os.kill(os.getpid(), number))
    with pytest.raises(error):
        write_in_a_process(data_dir, tmp_path)
    assert not multiprocessing.active_children()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([" \n", TITLE_ONLY], "the 2 examples of split 'train' have no line"),
        # An error of reading is not taken for one of writing.
        (["schön".encode("latin-1")] * 2, "^--tfds=bad/1.2.0: byte 4"),
    ],
)
def test_a_data_set_without_text_to_read_is_an_error(tmp_path, texts, message):
    prepare_texts(tmp_path, "bad", texts)
    with pytest.raises(ValueError, match=message):
        write(tmp_path, tmp_path / "out", "bad")
    assert not (tmp_path / "out").exists()

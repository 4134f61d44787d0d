"""Results and events: what was written is read again."""

import pytest
import tensorflow as tf

from training.loop import events


def test_results_are_read_as_they_were_written(tmp_path):
    metrics = {"loss": 1.25, "masked_lm_accuracy": 0.1, "worst": float("inf")}
    events.write_eval_results(str(tmp_path), metrics, 16)
    read = events.read_eval_results(str(tmp_path / "eval_results.txt"))
    assert read == pytest.approx({"global_step": 16} | metrics)
    assert list(read) == sorted(read)
    # The original writes the shortest digits that tell a float32 apart.
    lines = (tmp_path / "eval_results.txt").read_text().splitlines()
    assert lines[2] == "masked_lm_accuracy = 0.1"


@pytest.mark.parametrize("line", ["loss", "loss = ", "loss = a", "loss=1", ""])
def test_a_line_that_is_no_result_is_an_error(tmp_path, line):
    path = tmp_path / "eval_results.txt"
    path.write_text(f"accuracy = 0.5\n{line}\n")
    message = f"^{path} is damaged: '{line}', .*; evaluate again"
    with pytest.raises(ValueError, match=message):
        events.read_eval_results(str(path))


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        events.read_eval_results(str(tmp_path / "eval_results.txt"))


def test_points_of_the_original_are_read_without_texts(tmp_path):
    # TensorFlow 1 writes `simple_value`, and the path of a checkpoint as text.
    of_original = tf.compat.v1.Event(step=3)
    of_original.summary.value.add(tag="loss", simple_value=0.5)
    text = of_original.summary.value.add(tag="eval/checkpoint_path")
    text.tensor.CopyFrom(tf.make_tensor_proto("model.ckpt-3"))
    path = str(tmp_path / "events.out.tfevents.1")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(of_original.SerializeToString())
    events.write_scalars(str(tmp_path), {"loss": 0.25}, 4)
    assert events.read_points(str(tmp_path)) == {"loss": {3: 0.5, 4: 0.25}}

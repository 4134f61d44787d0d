"""What benchmarks print is read again, and what they count is counted right."""

import math

import pytest

from benchmarks import bench_lines, bench_rows, bench_step, train_step
from modeling import BertConfig


def test_a_training_steps_figures_are_read():
    found = bench_lines.train_step(
        "4 x 256, 32 x 128, float32: step 545 ms best, 583 ms median; 58.7 "
        "examples/s; 209 GFLOP/s = 48% of the matrix rate 432; its matrix "
        "products alone 380 ms = 70%; optimizer update 17.7 ms\n"
    )
    assert found == {
        "ms": 545,
        "gflops": 209,
        "matrix_rate": 432,
        "share": 0.48,
        "own_shapes": 0.7,
    }


def test_every_way_to_read_an_epoch_is_found():
    found = bench_lines.epochs(
        "2490 examples, batches of 32 x 128, float32: padded 300.5 s an epoch "
        "= 100% (3,900 ms a step); trimmed, grouped 150.0 s an epoch = 50% "
        "(1950 ms a step); packed 140.2 s an epoch = 47% (3700 ms a step)\n"
    )
    assert found == {
        "padded": 300.5,
        "trimmed, grouped": 150.0,
        "packed": 140.2,
    }


def test_the_warm_speed_of_ids_alone_is_read():
    found = bench_lines.tokenization(
        "tokenize: 16.0 MB/s the first time, 25.0 MB/s after that (20.6 MB)\n"
        "encode: 11.4 MB/s the first time, 23.8 MB/s after that (20.6 MB)\n"
        "in the graph: made in 0.4 s\n"
        "in the graph, tokenize: 32.8 MB/s, 17.1 MB per second of CPU (...)\n"
        "in the graph, tokenize_with_offsets: 29.1 MB/s, 15.0 MB per second\n"
    )
    assert found == {"python": 23.8, "in_graph": 32.8}


def test_the_table_of_record_making_is_read():
    found = bench_lines.pretraining_data(
        "processes  length  examples/s  MB of text/s  peak memory, MB\n"
        "        1     128      44,070          3.49              181\n"
        "        2     512      22,449          4.79            1,383\n"
    )
    assert found == {
        (1, 128): {
            "examples_per_s": 44070,
            "text_mb_per_s": 3.49,
            "peak_mb": 181,
        },
        (2, 512): {
            "examples_per_s": 22449,
            "text_mb_per_s": 4.79,
            "peak_mb": 1383,
        },
    }


def test_the_rate_of_one_device_is_read():
    rate = bench_lines.reading(
        "1 device                         dynamic                35,698\n"
        "1 device                         static                 87,808     9.3"
        "                    878.1      35.1\n"
        "8 devices, 1 host                static                 86,126     7.7"
    )
    assert rate == 87808


@pytest.mark.parametrize(
    "read",
    [
        bench_lines.train_step,
        bench_lines.epochs,
        bench_lines.tokenization,
        bench_lines.pretraining_data,
        bench_lines.reading,
    ],
)
def test_lines_without_figures_are_refused_and_shown(read):
    with pytest.raises(ValueError, match="printed:\nnothing of use"):
        read("nothing of use")


def test_parts_that_run_at_once_share_the_time_and_gaps_are_the_rest():
    found = bench_step.shares(
        [
            (0, 40, bench_step.FORWARD),
            (20, 40, bench_step.RANDOM),
            (60, 100, bench_step.OPTIMIZER),
        ]
    )
    assert {part: share for part, share in found.items() if share} == {
        bench_step.FORWARD: pytest.approx(0.3),
        bench_step.RANDOM: pytest.approx(0.1),
        bench_step.REST: pytest.approx(0.2),
        bench_step.OPTIMIZER: pytest.approx(0.4),
    }


@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("while/dense/MatMul", "_MklNativeFusedMatMul", bench_step.FORWARD),
        ("gradient_tape/while/MatMul_1", "_MklMatMul", bench_step.BACKWARD),
        ("gradient_tape/x", "_MklBatchMatMulV2", bench_step.ATTENTION),
        ("x", "StatelessRandomUniformFullIntV2", bench_step.RANDOM),
        ("x", "_MklTranspose", bench_step.REST),
        ("while/bias_gradient/MatMul", "_MklMatMul", bench_step.REST),
        ("vocabulary_loss/Softmax", "_MklSoftmax", bench_step.VOCABULARY_LOSS),
        ("vocabulary_gradient/Mul", "Mul", bench_step.VOCABULARY_LOSS),
        ("vocabulary_loss/MatMul", "_MklMatMul", bench_step.FORWARD),
        ("vocabulary_gradient/MatMul", "_MklMatMul", bench_step.BACKWARD),
    ],
)
def test_an_operations_part_follows_from_its_type(name, kind, part):
    assert bench_step.part_of(name, kind) == part


def test_what_starting_costs_is_in_no_rate_of_records():
    points = [
        {
            "text_mb": size,
            "processes": processes,
            "seconds": 3 * processes + size / processes,
            "examples": 1000 * size,
            "peak_mb": 100 * processes + size,
        }
        for size in (10, 20, 40)
        for processes in (1, 2)
    ]
    assert bench_rows.records_growth(points) == {
        "rates": [1000, 2000],
        "cost": 1,
        "memory": pytest.approx(140 / 120),
    }


@pytest.mark.parametrize("predictions", [0, 3])
@pytest.mark.parametrize("training", [True, False])
def test_the_products_of_a_step_are_its_counted_arithmetic(
    predictions, training
):
    config = BertConfig(
        vocab_size=50,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
    )
    kinds = train_step.products(config, 5, 16, predictions, training=training)
    counted = sum(
        count * math.prod(leading) * 2 * m * k * n
        for count, leading, m, k, n, *_ in kinds
    )
    expected = train_step.flops(config, 5, 16, predictions)
    # The head's own [H, H] product, which `products` leaves out as too small.
    expected -= 3 * 2 * 5 * predictions * 8 * 8
    assert counted == (expected if training else expected / 3)

"""Options of run_sentence_vectors.py --do_encode and --do_search."""

import dataclasses

from data.settings import Settings, refuse, setting
from modeling.choices import VECTOR_POOLINGS
from training.config.run_options import INIT_CHECKPOINT, DeviceOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodingOptions(Settings):
    """Which vectors are written, or what is searched."""

    do_encode: bool = setting(
        False, "Write the vectors of the texts of --input_file."
    )
    do_search: bool = setting(
        False,
        "Find the texts of --index_file that are nearest to each question of "
        "--input_file, or of the terminal.",
    )
    init_checkpoint: str | None = setting(None, INIT_CHECKPOINT)
    output_dir: str | None = setting(None, "Folder of the run.")
    input_file: str | None = setting(
        None,
        "Texts, one a line; or a tsv, csv or jsonl file with --text_columns, "
        "one name (default: text).",
    )
    output_file: str | None = setting(
        None,
        "Vectors as .npy or, with the texts, as .jsonl; for --do_search .jsonl "
        "of what was found. Default: the terminal.",
    )
    index_file: str | None = setting(
        None, "--do_search: .npy file that --do_encode wrote."
    )
    text_columns: tuple[str, ...] = setting((), "Tables: columns of the texts.")
    prompt_name: str | None = setting(
        None,
        "Which of the model's prompts is put before each text. Default: as the "
        "model says; for questions query, if it has this one.",
    )
    vector_size: int | None = setting(
        None, "--do_encode: one of the model's smaller sizes.", least=1
    )
    top_k: int = setting(10, "--do_search: texts for each question.", least=1)
    encode_batch_size: int = setting(32, "Texts computed at once.", least=1)
    vocab_file: str | None = setting(None, "The vocabulary.")
    do_lower_case: bool | None = setting(None, "Whether text is lower-cased.")
    max_seq_length: int | None = setting(None, "Most wordpieces of a text.")
    pooling: str | None = setting(
        None, "A text's vector.", choices=VECTOR_POOLINGS
    )
    normalize: bool | None = setting(None, "Vectors have the length 1.")
    device: DeviceOptions

    def _check(self) -> None:
        path = self.output_file or ""
        kinds = (".jsonl",) if self.do_search else (".npy", ".jsonl")
        refuse(
            (
                self.do_encode and self.do_search,
                "--do_encode writes an index and --do_search reads one; give "
                "one of them for each command.",
            ),
            (
                not self.output_dir and not self.init_checkpoint,
                "Give the model: --init_checkpoint=FOLDER, or --output_dir of "
                "the run that trained it.",
            ),
            (
                self.do_encode and not (self.input_file and self.output_file),
                "--do_encode needs --input_file and --output_file.",
            ),
            (
                self.do_search and not self.index_file,
                "--do_search needs --index_file, a file of --do_encode.",
            ),
            (
                self.do_search and self.vector_size,
                "--vector_size: --do_search takes the index's; leave it out.",
            ),
            (
                path and not path.endswith(kinds),
                f"--output_file={path}; it must end in {' or '.join(kinds)}.",
            ),
            (
                len(self.text_columns) > 1,
                f"--text_columns={','.join(self.text_columns)}: give one "
                "column of texts.",
            ),
        )

    @property
    def column(self) -> str:
        """The column of the texts; "" = the usual one."""
        return "".join(self.text_columns)

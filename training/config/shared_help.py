"""Help of flags that several programs have."""

BERT_CONFIG_FILE = (
    "JSON of the model's sizes, as configs/uncased_L-12_H-768_A-12.json. "
    "Default: in --output_dir or beside --init_checkpoint."
)
INIT_CHECKPOINT = (
    "Checkpoint to start from: a prefix such as DIR/bert_model.ckpt, or a "
    "folder. For a finished run, its best weights if saved; for trials, the "
    "chosen trial's. Only the weights are loaded; the log reports which."
)
VOCAB_FILE = (
    "The vocabulary. Default: in --output_dir or beside --init_checkpoint."
)
DO_LOWER_CASE = (
    "False for cased models. Not given: as --init_checkpoint's folder says."
)
NEVER_SPLIT = (
    "[new] Vocabulary tokens, comma-separated, that stay whole in any text, "
    "such as [ENTITY]. Default: those of --init_checkpoint's folder."
)
DO_EXPORT = "[new] Export the model of --output_dir, see --export_format."
ONE_HOT = "Look words up by matrix product; always so on a TPU."

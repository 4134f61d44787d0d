"""How a text becomes one vector, and the files that say it.

sentence_vectors.json               ours
modules.json                        sentence-transformers': the modules
1_Pooling/config.json               how the vectors of wordpieces become one
sentence_bert_config.json           longest text
config_sentence_transformers.json   prompts
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

from data.storage import files, json_files
from data.text.tokenizer_files import read_settings
from modeling.choices import VECTOR_POOLINGS, require_one_of

# In the folder of a model. A folder with this file holds sentence vectors.
VECTOR_FORM = "sentence_vectors.json"
_MODULES = "modules.json"
_AGAIN = "put it back, or train the model again"
_POOLING, _TEXTS = "1_Pooling", "sentence_bert_config.json"
_CONFIG = "config_sentence_transformers.json"
_KNOWN = ("Transformer", "Pooling", "Normalize")
# Key of 1_Pooling/config.json until release 5 -> pooling.
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_REMEDY = "get the folder again"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorForm:
    """What turns the last block's output into a text's vector.

    Attributes:
      pooling: one of `choices.VECTOR_POOLINGS`.
      normalize: whether vectors are L2-normalized.
      vector_sizes: smaller sizes that vectors can be truncated to (Matryoshka),
        the largest first.
      prompts: name -> text that is prepended to a text, such as "query: ".
      default_prompt: name of the prompt for texts without one; "" = none.
      max_seq_length: most wordpieces of a text; None = it is not known.
    """

    pooling: str = "mean"
    normalize: bool = True
    vector_sizes: tuple[int, ...] = ()
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt: str = ""
    max_seq_length: int | None = None

    def __post_init__(self):
        texts = self.default_prompt, *self.prompts, *self.prompts.values()
        numbers = *self.vector_sizes, self.max_seq_length or 0
        if not (
            isinstance(self.normalize, bool)
            and all(isinstance(text, str) for text in texts)
            and all(isinstance(number, int) for number in numbers)
        ):
            raise TypeError(f"a value is of another type: {self}")
        sizes = tuple(sorted(set(self.vector_sizes), reverse=True))
        object.__setattr__(self, "vector_sizes", sizes)
        require_one_of(VECTOR_POOLINGS, "pooling", self.pooling)
        self.prompt()

    def sizes(self, hidden_size: int) -> tuple[int, ...]:
        """Returns the sizes of vectors, the largest first.

        Raises ValueError for a size that the model does not have.
        """
        if wrong := [n for n in self.vector_sizes if not 0 < n <= hidden_size]:
            raise ValueError(
                f"--vector_sizes has {wrong[0]}; it must be 1 to {hidden_size}."
            )
        return tuple(dict.fromkeys((hidden_size, *self.vector_sizes)))

    def prompt(self, name: str | None = None) -> str:
        """Returns a prompt's text by its name; None = the default one.

        Raises ValueError for an unknown name.
        """
        name = self.default_prompt if name is None else name
        if name and name not in self.prompts:
            raise ValueError(
                f"there is no prompt {name!r}; the model has "
                f"{', '.join(self.prompts) or 'none'}."
            )
        return self.prompts[name] if name else ""

    def usual(self, names: Sequence[str]) -> str | None:
        """Returns the first of usual names that a prompt has; None = none."""
        return next((name for name in names if name in self.prompts), None)

    def write(self, folder: str) -> None:
        """Writes the form to the folder of a model."""
        path = os.path.join(folder, VECTOR_FORM)
        json_files.write_json(path, dataclasses.asdict(self))

    @classmethod
    def find(cls, folder: str) -> Self | None:
        """Reads the form in the folder of a model; None = there is none.

        The folder may be one of sentence-transformers. Raises ValueError if a
        file is damaged, of another version, or has what is not known here;
        FileNotFoundError if `task.json` says that the form was there.
        """
        path = os.path.join(folder, VECTOR_FORM)
        if files.exists(path):
            facts = json_files.read_json(path, [*vars(cls())], _AGAIN)
        elif files.exists(path := os.path.join(folder, _MODULES)):
            try:
                facts = _read_theirs(folder)
            except (AttributeError, TypeError) as error:
                raise ValueError(
                    f"{folder}: {_MODULES}, {_CONFIG} or {_POOLING}/config.json"
                    f" is damaged ({error}); {_REMEDY}."
                ) from None
        elif _read(folder, "task.json").get("kind") == "vectors":
            raise FileNotFoundError(
                f"{folder} holds a model of vectors without {VECTOR_FORM}, "
                f"which says how they are computed; {_AGAIN}."
            )
        else:
            return None
        try:
            return cls(**facts)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is damaged or has another version ({error}); {_AGAIN}."
            ) from None


def _read_theirs(folder: str) -> dict[str, Any]:
    """Reads the arguments of a form of sentence-transformers.

    The files' values may have any type. Raises ValueError for a module, a
    pooling or a lower-casing that is not known here, and for damaged files.
    """
    path = os.path.join(folder, _MODULES)
    modules = json_files.read_json_list(path, ("type", "path"), _REMEDY)
    names = [module["type"].rpartition(".")[2] for module in modules]
    if tuple(names) not in (_KNOWN[:2], _KNOWN):
        raise ValueError(
            f"{path} has the modules {', '.join(names)}; here they can be "
            f"{', '.join(_KNOWN[:2])} and perhaps {_KNOWN[2]}."
        )
    if modules[0]["path"]:
        raise ValueError(
            f"{path}: the encoder's files are in {modules[0]['path']}; move "
            f"them to {folder}, and write an empty path there."
        )
    says_lower = _read(folder, _TEXTS).get("do_lower_case")
    if says_lower and read_settings(folder).do_lower_case is not True:
        raise ValueError(
            f"{os.path.join(folder, _TEXTS)} says do_lower_case: true, but the "
            "tokenizer keeps capitals; correct the file that is wrong."
        )
    config = _read(folder, _CONFIG)
    prompts = config.get("prompts") or {}
    if not all(isinstance(text, str) for text in prompts.values()):
        raise TypeError(f"a prompt is no text: {prompts}")
    return {
        "pooling": _pooling(os.path.join(folder, modules[1]["path"]), prompts),
        "normalize": "Normalize" in names,
        "vector_sizes": tuple(config.get("vector_sizes") or ()),
        "prompts": prompts,
        "default_prompt": config.get("default_prompt_name") or "",
        "max_seq_length": read_max_seq_length(folder),
    }


def _pooling(folder: str, prompts: Mapping[str, str]) -> str:
    """The pooling that a folder's config.json names."""
    config, path = _read(folder, "config.json"), f"{folder}/config.json"
    named = [name for key, name in _POOLINGS.items() if config.get(key)]
    modes = config.get("pooling_mode") or named or ["none"]
    pooling = modes if isinstance(modes, str) else " and ".join(modes)
    if pooling not in VECTOR_POOLINGS:
        raise ValueError(
            f"{path} has the pooling {pooling}; here it can be "
            f"{' or '.join(VECTOR_POOLINGS)}."
        )
    if any(prompts.values()) and config.get("include_prompt") is False:
        raise ValueError(
            f"{path} has include_prompt: false, but here a prompt's wordpieces "
            "belong to the text; take a model with include_prompt: true."
        )
    return pooling


def read_max_seq_length(folder: str) -> int | None:
    """Reads the most wordpieces of a text; None = no file says it."""
    ours = _read(folder, VECTOR_FORM).get("max_seq_length")
    if ours or not files.exists(os.path.join(folder, _MODULES)):
        return ours
    # Releases from 5 on write it for the tokenizer alone.
    length = _read(folder, _TEXTS).get("max_seq_length")
    most = _read(folder, "tokenizer_config.json").get("model_max_length")
    return length or (most if isinstance(most, int) and most < 10**6 else None)


def write_theirs(folder: str, form: VectorForm, hidden_size: int) -> None:
    """Writes what makes a folder of Hugging Face one of sentence-transformers.

    The sizes are in a key that they ignore.
    """
    paths = ("", _POOLING, "2_Normalize")[: 3 if form.normalize else 2]
    types = "sentence_transformers.models."
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": types + _KNOWN[i]}
        for i, path in enumerate(paths)
    ]
    pooling = {key: form.pooling == name for key, name in _POOLINGS.items()}
    pooling = {"word_embedding_dimension": hidden_size} | pooling
    config = {
        "prompts": dict(form.prompts),
        "default_prompt_name": form.default_prompt or None,
        "similarity_fn_name": "cosine",
    }
    if form.vector_sizes:
        config["vector_sizes"] = form.vector_sizes
    texts = {"max_seq_length": form.max_seq_length, "do_lower_case": False}
    contents = {f"{path}/config.json": {} for path in paths[1:]}
    contents |= {f"{_POOLING}/config.json": pooling, _TEXTS: texts}
    contents |= {_CONFIG: config, _MODULES: modules}
    for name, content in contents.items():
        json_files.write_json(os.path.join(folder, name), content)


def _read(folder: str, name: str) -> dict[str, Any]:
    """Returns the content of a file, {} if there is none."""
    return json_files.find_json(os.path.join(folder, name), remedy=_REMEDY)

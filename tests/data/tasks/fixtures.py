"""Small folders of every task's files, in the form they are released in."""

import json


def table(header, rows, delimiter="\t"):
    lines = ([header] if header else []) + rows
    return "".join(
        delimiter.join(str(cell) for cell in line) + "\n" for line in lines
    )


def glue(header, labels, test_header=None, dev=("dev",), test=("test",)):
    """The files of a task of two texts."""
    header = header.split()
    test_header = test_header or header[:-1]

    def rows(width, labelled):
        return [
            [i, *["x"] * (width - 3 - labelled), f"first {i}", f'a "second {i}']
            + ([labels[i % len(labels)]] if labelled else [])
            for i in range(4)
        ]

    labelled = table(header, rows(len(header), True))
    unlabelled = table(test_header, rows(len(test_header), False))
    return {f"{name}.tsv": labelled for name in ("train", *dev)} | {
        f"{name}.tsv": unlabelled for name in test
    }


INFERENCE = ("neutral", "entailment", "contradiction")
COLA = table(None, [["s", i % 2, "*", f'It is "{i}'] for i in range(4)])
SST2 = [[f"good {i}", i % 2] for i in range(4)]
MRPC = [[i % 2, 10 + i, 20 + i, f"first {i}", f"second {i}"] for i in range(4)]
QQP = "id qid1 qid2 question1 question2 is_duplicate"
MNLI = "index promptID pairID genre s1bp s2bp s1p s2p sentence1 sentence2 gold"
STSB = "index genre file year old s1 s2 sentence1 sentence2 score"
XNLI_DEV = table(
    ["language", "gold_label", "a", "b", "c", "d", "sentence1", "sentence2"],
    [
        [language, INFERENCE[i], "", "", "", "", f"{language} {i}", "zwei"]
        for language in ("de", "zh")
        for i in range(3)
    ],
)
SWAG = "n,video-id,fold-ind,startphrase,sent1,sent2,gold-source," + ",".join(
    f"ending{i}" for i in range(4)
)
SWAG_ROW = '{},v,f,s,"A man, a dog.",He,gold,runs,"sits, still",is,has'
CONLL = """-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""
CONLLU = """# newdoc id = 1
# text = It's on.
1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\t_
1\tIt\tit\tPRON\tPRP\t_\t3\t_\t_\t_
2\t's\tbe\tAUX\tVBZ\t_\t3\t_\t_\t_
3\ton\ton\tADV\tRB\t_\t0\t_\t_\t_
3.1\tgone\tgo\tVERB\tVB\t_\t_\t_\t_\t_

1\t#\t#\tSYM\tNN\t_\t0\t_\t_\t_
"""
RACE = {
    "article": "The old house.",
    "questions": ["It is _ .", "What is old?"],
    "options": [["old", "new", "red", "big"], ["a", "b", "c", "d"]],
    "answers": ["A", "C"],
}


def swag(labelled):
    lines = [SWAG + (",label" if labelled else "")]
    for i in range(4):
        lines.append(SWAG_ROW.format(i) + (f",{i}" if labelled else ""))
    return "\n".join([*lines, ""])


def race_files():
    return {
        f"{part}/{school}/1.txt": json.dumps(RACE | {"id": f"{school}1.txt"})
        for part in ("train", "dev", "test")
        for school in ("middle", "high")
    }


# Task -> its files.
FOLDERS = {
    "cola": {
        "train.tsv": COLA,
        "dev.tsv": COLA,
        "test.tsv": table(["index", "sentence"], [[0, "One."], [1, "Two."]]),
    },
    "sst-2": {
        "train.tsv": table(["sentence", "label"], SST2),
        "dev.tsv": table(["sentence", "label"], SST2),
        "test.tsv": table(["index", "sentence"], [[0, "good"], [1, "bad"]]),
    },
    # With the byte-order mark of some copies.
    "mrpc": {
        f"{name}.tsv": "\ufeff"
        + table(["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"], MRPC)
        for name in ("train", "dev", "test")
    },
    "sts-b": glue(STSB, ("0.5", "4.000", "2")),
    "qqp": glue(QQP, "01", ["id", "question1", "question2"]),
    "mnli": glue(
        f"{MNLI}_label",
        INFERENCE,
        dev=("dev_matched", "dev_mismatched"),
        test=("test_matched", "test_mismatched"),
    ),
    "ax": {
        "diagnostic.tsv": table(
            ["index", "sentence1", "sentence2"], [[0, "One.", "Two."]]
        )
    },
    "qnli": glue(
        "index question sentence label", ("not_entailment", "entailment")
    ),
    "rte": glue(
        "index sentence1 sentence2 label", ("not_entailment", "entailment")
    ),
    "wnli": glue("index sentence1 sentence2 label", "01"),
    "xnli": {
        "multinli/multinli.train.zh.tsv": table(
            ["premise", "hypo", "label"],
            [["yi", "er", "contradictory"], ["yi", "yi", "entailment"]],
        ),
        "xnli.dev.tsv": XNLI_DEV,
        "xnli.test.tsv": XNLI_DEV,
    },
    "swag": {
        "train.csv": swag(True),
        "val.csv": swag(True),
        "test.csv": swag(False),
    },
    "codah": {
        "codah_full_data.tsv": table(
            None,
            [
                ["o", f"I {i}", "run", "sit", "do", "am", i % 4]
                for i in range(20)
            ],
        )
    },
    "race": race_files(),
    "conll": {name: CONLL for name in ("eng.train", "valid.txt", "test.txt")},
    "conllu": {f"{n}.conllu": CONLLU for n in ("train", "dev", "test")},
    "tsv": {
        "train.tsv": table(["text", "label"], [["a b", "yes"], ["c", "no"]]),
        "dev.csv": table(["text", "label"], [['"a, ""b"""', "no"]], ","),
        "test.jsonl": '{"text": "c"}\n',
    },
    "csv": {
        "train.csv": 'text;label\r\n"a; b\nc";yes\r\nc;no\r\n',
        "dev.csv": "label,text\nno,c\n",
        "test.tsv": "text\nc\n",
    },
    "jsonl": {
        "train.jsonl": '{"text": "a", "label": 1}\n{"text": "b", "label": 2}\n',
        "dev.csv": "text,label\na,1\n",
        "test.jsonl": '{"text": "c"}\n',
    },
}


def write_files(folder, contents):
    """Writes files by their names in a folder; returns the folder."""
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else text.encode("utf-8")
        path.write_bytes(data)
    return str(folder)

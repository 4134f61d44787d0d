r"""Makes one of the paper's studies: pretrains its rows and compares them.

  python run_study.py --study=masking --output_dir=/tmp/masking

  python run_study.py --study=pretraining_tasks --output_dir=/tmp/tasks \
    --text=novels.txt --conllu_dir=UD_English-EWT --glue_dir=glue_data \
    --squad_dir=squad

A study is a table of the paper, made small: each row is a model that is
pretrained in its own way, fine-tuned with several seeds and measured.
--output_dir gets study.md (ours beside the paper's, and whether the signs
agree), study.tsv, study.png, and a folder for each row. Without data it takes
the text of `make demo`, and measures what the text alone allows. The same
command resumes a study that was stopped. --scale=paper prints the commands at
the paper's size and their cost, and runs nothing.
"""

import studies
from studies.engine.commands import paper_commands
from studies.engine.scales import PAPER
from studies.engine.study_options import StudyOptions, check_rows
from training import program
from training.config import flags


def main() -> None:
    """Prints the paper's commands, or makes the study."""
    options = flags.read(StudyOptions)
    study = studies.get(options.study)
    check_rows(study, options)
    if options.scale == PAPER:
        print(*paper_commands(study, options.study, options.rows), sep="\n")
        return
    options.data.check(study)
    program.load_tensorflow()
    from studies.engine import running
    from studies.engine.plan import Plan
    from studies.engine.programs import Programs

    plan = Plan(study, options)
    running.run(plan, Programs(plan))


if __name__ == "__main__":
    flags.define(StudyOptions)
    program.run(main)

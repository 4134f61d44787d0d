"""The flags of the programs, without TensorFlow and without any work."""

import json

from tests.support import fork_server

# Defines a program's flags, then runs `main` on command after command, in an
# empty folder, up to the first import of TensorFlow or the first file that is
# not there. Everything that is wrong with flags is found before.
_SCRIPT = """
import json, os, runpy, sys, tempfile
from absl import app, flags
sys.path[0] = os.getcwd()
sys.modules |= {"tensorflow": None, "keras": None}
from training.config import flags as ours
started, bounds, define = [], {}, ours._define_flag
app.run = lambda main, **_: started.append(main)
def define_and_keep(field, *rest):
    found = {n: getattr(field.setting, n) for n in ("least", "most", "above")}
    bounds[field.flag] = {n: x for n, x in found.items() if x is not None}
    define(field, *rest)
ours._define_flag = define_and_keep
runpy.run_path(f"{sys.argv[1]}.py", run_name="__main__")
(main,) = started
FLAGS = flags.FLAGS
defaults = {name: FLAGS[name].default for name in FLAGS}
validators = {name: list(FLAGS[name].validators) for name in FLAGS}
described = {}
for module, defined in FLAGS.flags_by_module_dict().items():
    for flag in defined if not module.startswith("absl.") else ():
        choices = getattr(flag.parser, "enum_values", None)
        described[flag.name] = {
            "type": flag.flag_type(),
            "default": flag.default,
            "is_new": "[new]" in flag.help,
            "is_required": bool(flag.validators),
        } | ({"choices": choices} if choices else {}) | bounds[flag.name]
parsed = []
commands = json.loads(sys.stdin.read())
os.chdir(tempfile.mkdtemp())
for command, is_whole in commands:
    for name in FLAGS:
        FLAGS[name].unparse()
        FLAGS[name].validators[:] = validators[name] if is_whole else []
    FLAGS.unparse_flags()
    try:
        # --verbosity=1: errors are raised as they are.
        rest = FLAGS([sys.argv[1], *command, "--verbosity=1"])
        assert len(rest) == 1, f"not a flag: {rest[1:]}"
        parsed.append({n: FLAGS[n].value for n in FLAGS if FLAGS[n].present})
        if is_whole:
            main(rest)
            sys.exit(f"{sys.argv[1]}.py works without TensorFlow and files")
    except (ModuleNotFoundError, FileNotFoundError) as error:
        name = getattr(error, "name", None) or "tensorflow"
        assert name.split(".")[0] in ("tensorflow", "keras"), error
    # Broad, because any other error means that the documented command fails.
    except Exception as error:
        sys.exit(f"{sys.argv[1]}.py {' '.join(command)}: {error}")
os.rmdir(os.getcwd())
result = {"defaults": defaults, "parsed": parsed, "described": described}
print(json.dumps(result, default=str))
"""


def parse(program, commands, root):
    """Parses commands of one program, all in one process.

    Args:
      program: name of its file, without .py.
      commands: (flags, whether these are all flags of the command), each.
        Flags are then checked against each other, too.
      root: the project's folder.

    Returns:
      `defaults`: flag -> default; `parsed`: of each command the flags that
      are given; `described`: flag -> type, default, choices, bounds, whether
      it is new and whether it is required, without the flags of absl.
    """
    done = fork_server.cold_python(
        "-c", _SCRIPT, program, input=json.dumps(commands), cwd=root
    )
    return json.loads(done.stdout.splitlines()[-1])

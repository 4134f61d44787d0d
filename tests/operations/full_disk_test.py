import os

import pytest

from tests.support import fork_server
from tests.training.support import FILES

pytestmark = [pytest.mark.all, pytest.mark.alone]

# A disk of its own where the kernel lets everybody mount one; else no file may
# grow beyond the room that is left.
SCRIPT = """
import ctypes, os, pathlib, resource, sys
from absl import logging
from tests.support.pretraining_support import make_options
from training.runs import pretraining
from training.loop.checkpointing import CheckpointManager

goldens, folder, left = sys.argv[1:]
left = int(left)
logging.set_verbosity(logging.INFO)

def mount():
    ids = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000 | 0x00020000):  # user, mounts
        return False
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"0 {ids[0]} 1"),
        ("gid_map", f"0 {ids[1]} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return not libc.mount(b"none", folder.encode(), b"tmpfs", 0, b"size=20m")

try:
    mounted = mount()
except OSError:
    mounted = False
filler = folder + "/filler"

def fill():
    if not mounted:
        resource.setrlimit(resource.RLIMIT_FSIZE, (left, -1))
        return
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(file.tell() // 4096 * 4096 - left)

def make_room():
    if mounted:
        os.remove(filler)
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))

def files():
    return " ".join(sorted(os.listdir(folder + "/out")))

def run():
    options = make_options(pathlib.Path(goldens), folder + "/out")
    options = options.replace(num_train_steps=16, save_checkpoints_steps=4)
    pretraining.run(options.replace(init_checkpoint=None, log_steps=1))

save = CheckpointManager.save

def save_and_fill(self, variables, point):
    path = save(self, variables, point)
    if point.global_step == 8:
        fill()
    return path

CheckpointManager.save = save_and_fill
print("mounted", mounted)
try:
    run()
except OSError as error:
    print(error)
print(files())
CheckpointManager.save = save
make_room()
run()
print(files())
"""


@pytest.mark.parametrize("left", [409600, 4096])
def test_the_last_good_checkpoint_stays_and_the_run_goes_on(
    goldens, tmp_path, left
):
    done = fork_server.python("-c", SCRIPT, goldens, tmp_path, left)
    mounted, error, full, later = done.stdout.splitlines()
    if left > 4096:  # else TensorBoard's points may be the first that fail
        path = f"{tmp_path}/out/model.ckpt-12"
        assert error.startswith(f"cannot write the checkpoint {path}: ")
        assert "Earlier checkpoints are intact; check the folder's" in error
    assert "cannot write " in error
    reason = "No space left" if mounted.endswith("True") else "File too large"
    assert reason in error
    assert "{{" not in error
    assert "incomplete" not in full
    steps = [f"model.ckpt-{step}{end}" for step in (4, 8) for end in FILES]
    assert {*steps, "checkpoint"} <= {*full.split()}
    assert "model.ckpt-12" not in full
    assert "/out at step 8." in done.stderr
    assert "model.ckpt-16.index" in later
    assert "incomplete" not in later
    assert not os.listdir(tmp_path) or mounted.endswith("False")

"""Base of the options classes: what a flag needs, and what it excludes."""

from data.settings import Settings
from data.storage import files


class Options(Settings):
    """Options that can refuse flags by their names."""

    def _need(self, name: str, *others: str) -> None:
        """Refuses a flag, if it is given, without the others."""
        if self.changed().get(name) and not all(map(self.find, others)):
            needed = " and ".join(f"--{other}" for other in others)
            raise ValueError(
                f"--{name} needs {needed}; give that, too, or drop --{name}."
            )

    def _exclude(self, name: str, *others: str) -> None:
        """Refuses a flag, if it is given, with any of the others."""
        given = {n: x for n, x in self.changed().items() if x not in (None, "")}
        for other in others:
            if name in given and other in given:
                raise ValueError(
                    f"--{name}={given[name]} contradicts "
                    f"--{other}={given[other]}; drop one."
                )

    def _require(self, *flags: str) -> None:
        """Refuses files that are not given and cannot be found."""
        folder = self.find("output_dir")
        others = map(self.find, ("init_checkpoint", "continue_from"))
        if any(others) or "://" in folder:
            return
        missing = [flag for flag in flags if not self.find(flag)]
        if missing and not files.exists(folder):
            raise ValueError(
                f"Flag --{missing[0]} must have a value other than None: there "
                "is no --init_checkpoint to look beside, and nothing yet in "
                f"--output_dir={folder}. Give the flag, or the folder of a run."
            )

"""A small real job: counts steps, writes how far it is, ends with 0. `python job.py STEPS STEP_MS`.

Run by path, with the standard library alone, as a user's training script would be.
"""

import sys
import time

_NAPS = 5


def main() -> None:
    """Do the steps. One that is stopped for a while does them later: its share is what it gets."""
    steps, step_s = int(sys.argv[1]), float(sys.argv[2]) / 1e3
    for step in range(steps):
        for _ in range(_NAPS):  # short ones: who is stopped in his sleep loses no more than the rest of it
            time.sleep(step_s / _NAPS)
        if step % 25 == 0:
            sys.stdout.write(f"step {step} of {steps}\n")
            sys.stdout.flush()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()

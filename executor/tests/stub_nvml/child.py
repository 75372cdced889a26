"""Runs NvmlDevices where the library path has the stub: a JSON call a line in, an answer a line out."""

import dataclasses
import json
import sys

from antecast_executor.devices.nvml import NvmlDevices
from antecast_executor.interfaces import DeviceError


def main() -> None:
    backend = NvmlDevices()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            result = getattr(backend, name)(*arguments)
            answer = {"result": [dataclasses.asdict(item) for item in result or []]}
        except DeviceError as error:
            answer = {"code": error.code, "message": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

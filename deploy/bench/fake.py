"""Make a table of what `go test -bench SessionStarts` prints. Run by ``fake``."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict

from machine import heading, machine, spread, table

MEASURED = re.compile(r"([\d.]+(?:e[+-]?\d+)?) (\S+)")


def main() -> int:
    """Read the output of the benchmark and print medians; without a result, print it as it is."""
    about, units = machine(), defaultdict[str, list[float]](list)
    lines = sys.stdin.readlines()
    for line in lines:
        if line.startswith("Benchmark"):
            for value, unit in MEASURED.findall(line.split("\t", 2)[-1]):
                units[unit].append(float(value))
    units.pop("ns/op", None)
    if not units:
        sys.stderr.writelines(lines)
        return 1
    print(heading("fake", about, os.getloadavg()[0]))
    print(table(["200 starts: median (min to max)", ""], [[unit, spread(values)] for unit, values in units.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run a small payload for N points with submitit's local executor or dask's LocalCluster, and print the seconds."""

from __future__ import annotations

import sys
import tempfile
import time


def payload(x: int) -> float:
    """Compute a little, as the points of the scan do."""
    return sum((x * i) % 7 for i in range(100_000)) / 7


def by_submitit(points: int, at_once: int) -> list[float]:
    """Submit each point as a job of the local executor, as many at a time as are to run: it has no limit of its own."""
    import submitit

    results: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        executor = submitit.LocalExecutor(folder=folder)
        executor.update_parameters(timeout_min=5)
        running: list[submitit.Job[float]] = []
        for x in range(points):
            while len(running) >= at_once:
                ended = [job for job in running if job.done()]
                results += [job.result() for job in ended]
                running = [job for job in running if job not in ended]
                time.sleep(0.01)
            running.append(executor.submit(payload, x))
        results += [job.result() for job in running]
    return results


def by_dask(points: int, at_once: int) -> list[float]:
    """Map over the workers of a cluster that is made for it, as a notebook would."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=at_once, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        results: list[float] = client.gather(client.map(payload, range(points)))
    return results


def main() -> None:
    """Run one of them."""
    tool, points, at_once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    begun = time.monotonic()
    results = {"submitit": by_submitit, "dask": by_dask}[tool](points, at_once)
    took = time.monotonic() - begun
    if sorted(results) != sorted(payload(x) for x in range(points)):
        raise SystemExit(f"{tool}: wrong results")
    print(took)


if __name__ == "__main__":
    main()

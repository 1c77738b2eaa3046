#!/usr/bin/env bash
# Jobs of this host beside `apptainer exec`, `xargs`, submitit and dask, in turns; a large scan and the service's memory.
#
#   jobs.sh [-parts overhead,rate,compare,many] [-rounds N] [-points N] [-at-once N] [-verbose]
#
# A service of its own, beside any other on the machine, which it removes at the end. Needs root, Docker with slipway/notebook:1 and Apptainer.
source "$(dirname "$0")/lib.sh"

build_jobs() {
  ensure_go
  build_slipway "$WORK/bin/slipway"
  build_job_program "$WORK/bin/slipway-job"
  (cd "$REPO" && go build -trimpath -o "$WORK/bin/bench" ./deploy/bench/jobs)
  venv "$CACHE/bench-jobs" "$BENCH/jobs/requirements.txt"
}

begin_bench
step "programs" build_jobs >&2
"$WORK/bin/bench" -slipway "$WORK/bin/slipway" -python "$CACHE/bench-jobs/bin/python" "$@"

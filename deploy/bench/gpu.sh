#!/usr/bin/env bash
# What the GPUs of this machine are and do, in one call: for testdata, and for the tables of deploy/bench/README.md.
#
#   gpu.sh [--seconds N] [--helper FILE] [DIRECTORY]
#
#   --seconds N    each load runs N seconds, 5 unless told otherwise; about 3 minutes in all
#   --helper FILE  the program slipway-gpu, ready built: then the machine needs neither Go nor gcc
#
# Into DIRECTORY ($OUT, or ./gpu-DATE-MODEL), it writes
#   inventory.json   devices with their real profile and placement tables, health, a reading (a capture for testdata)
#   selftest.json    the self-test of the whole GPU
#   gpu.json         every value that was measured
#   gpu.md           the same as tables
#
# Measured: whether GPM and the other counters tell idle from busy, the energy counter against the integrated power, 1 to 8 jobs
# by time slicing, and by MPS where its control program is, with its memory limit against a process that asks for more.
# It changes no setting of a GPU: no MIG mode, no compute mode, no reset. Needs Go, gcc, python3 and a GPU that nobody else uses;
# for MPS and for the placement tables, root.
source "$(dirname "$0")/../lib/common.sh"
for lib in apt go; do source "$DEPLOY/lib/$lib.sh"; done

usage() { sed -n '2,/^[^#]/{/^[^#]/d;s/^# \{0,1\}//p}' "$0"; }

seconds=5
helper=
dir=${OUT:-}
while (($#)); do
  case $1 in
    -h | --help) usage && exit ;;
    --seconds) seconds=${2:?--seconds takes a number} && shift 2 ;;
    --helper) helper=${2:?--helper takes a file} && shift 2 ;;
    -*) die "unknown argument $1: see --help" ;;
    *) dir=$1 && shift ;;
  esac
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "--seconds $seconds: give a whole number, 1 or more"

# Told before anything is built.
compgen -G '/dev/nvidia[0-9]*' >/dev/null ||
  die "this machine has no NVIDIA GPU that works: there is no /dev/nvidia0; load the driver (nvidia-smi does) and try again"

WORK=$(mktemp -d /var/tmp/slipway-gpu.XXXXXX)
trap 'rm -rf "$WORK"' EXIT
python=$(command -v python3) || die "needs Python 3.11 or newer: apt-get install python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "$python is too old: needs Python 3.11 or newer"
if [[ -z $helper ]]; then
  for program in gcc /usr/include/stdio.h; do
    command -v "$program" >/dev/null || [[ -e $program ]] || die "needs a C compiler: apt-get install gcc libc6-dev"
  done
  ensure_go
  helper=$WORK/slipway-gpu
  build_gpu_helper "$helper"
fi
[[ -x $helper ]] || die "--helper $helper: this is no program"
helper=$(realpath "$helper")
"$helper" inventory --json >"$WORK/inventory.json"

[[ -n $dir ]] || dir=gpu-$(date -u +%Y-%m-%d)-$("$python" -c '
import json, re, sys
print(re.sub("[^A-Za-z0-9]+", "-", json.load(open(sys.argv[1]))["gpus"][0]["device"]["name"]))' "$WORK/inventory.json")
mkdir -p "$dir"
cp "$WORK/inventory.json" "$dir/inventory.json"
# What it finds is a result too; the load below fails when the GPU cannot be used at all.
"$helper" selftest --json >"$dir/selftest.json" || echo "the self-test ended with $?: see $dir/selftest.json" >&2
PYTHONDONTWRITEBYTECODE=1 "$python" "$DEPLOY/bench/gpu.py" --helper "$helper" --inventory "$dir/inventory.json" \
  --seconds "$seconds" --json "$dir/gpu.json" | tee "$dir/gpu.md"
echo "written to $dir" >&2

# shellcheck shell=bash
# Sets a software stack up and becomes its kernel. What goes wrong is told by the program that started this one.
#   stack.sh TITLE SETUP PYTHON CONNECTION TELLER...
slipway_title=$1 slipway_setup=$2 slipway_python=$3 slipway_connection=$4
shift 4
slipway_teller=("$@")
slipway_before=("PYTHONPATH=${PYTHONPATH-}" "PYTHONHOME=${PYTHONHOME-}" "LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}" "PATH=$PATH")
slipway_said=$(mktemp)
exec {slipway_out}>&1 {slipway_err}>&2

# The script's own words go to the kernel's log, and to the notebook. The teller has the environment of before.
slipway_fail() {
  set +eu
  trap - EXIT
  exec >&"$slipway_out" 2>&"$slipway_err" {slipway_out}>&- {slipway_err}>&-
  cat "$slipway_said" >&2
  echo "slipway: $slipway_title: $1" >&2
  exec env "${slipway_before[@]}" "${slipway_teller[@]}" tell "$slipway_title" "$1" "$slipway_said" "$slipway_connection"
}

set -- # scripts look at their arguments
trap 'slipway_fail "$slipway_setup ended the shell with code $?"' EXIT
# shellcheck source=/dev/null
source "$slipway_setup" >"$slipway_said" 2>&1 </dev/null
slipway_code=$?
set +eu
trap - EXIT
if ((slipway_code != 0)); then slipway_fail "$slipway_setup failed with code $slipway_code"; fi
if ! command -v "$slipway_python" >/dev/null; then
  slipway_fail "$slipway_setup brings no program $slipway_python"
fi
if ! "$slipway_python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("ipykernel_launcher") is None)' >>"$slipway_said" 2>&1; then
  slipway_fail "$(command -v "$slipway_python") has no ipykernel"
fi
cat "$slipway_said" >&2
rm -f "$slipway_said"
exec "$slipway_python" -m ipykernel_launcher -f "$slipway_connection" {slipway_out}>&- {slipway_err}>&-

#!/bin/sh
# Leases and releases parts of a GPU through SQLite, from 64 clients at once, while the service is killed at random steps. Prints one
# line of figures; fails when a part ever has two owners, or anything is left. Usage: run.sh [PAIRS], 10000 unless told.
set -eu
cd "$(dirname "$0")/../../.."
SLIPWAY_LEDGER_PAIRS="${1:-10000}" exec go test ./spawner/engine -count=1 -v -run '^TestLedgerUnderFire$' -timeout 30m

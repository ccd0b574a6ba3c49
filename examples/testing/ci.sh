#!/usr/bin/env bash
# The tests of a project for GPUs, on a machine without one: a plain run, then two
# that make missing synchronisation show, with hangs turned into errors.
set -euo pipefail
export OPENREG_WAIT_TIMEOUT=120

python -m pytest "$@"
for seed in 1 2; do
  OPENREG_SCHEDULE=adversarial OPENREG_SEED=$seed python -m pytest "$@"
done

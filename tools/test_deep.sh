#!/usr/bin/env bash
# What takes longer: all mutations and trials, long histories, all tests in their other forms, the soak, and `make test`
# under each Python of the README that the machine has. It stops at the first that fails, and prints one table.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/run

run="pytest --numprocesses=$(($(getconf _NPROCESSORS_ONLN) + 2)) --maxprocesses=8 --dist=worksteal --timeout=900"
servers="tests/services tests/executors tests/webhooks tests/metrics tests/app tests/cli tests/gateway"

stage mutations $run -m mutation
stage histories env EFFORT=4 $run --tier=test --tier=deep -m "not mutation" tests/simulation tests/core tests/cadence \
  tests/conversion tests/engine tests/gateway/test_openapi.py
stage compile make compile
stage compiled $run --core=compiled --tier=test
stage sqlite $run --core=compiled --store=sqlite --tier=test $servers
stage trials env KILLS=60 CUTS=20 UPGRADES=6 ROUNDS=3 MINUTES=3 TASKS=10000 CALLS=100 $run --core=compiled --store=sqlite --tier=gate --tier=deep \
  tests/durability tests/replicas tests/faults tests/stress tests/clients/python/host
stage soak make soak ARGS="--minutes 4"
for version in 3.11 3.12 3.13; do
  if "python$version" -c "" 2>/dev/null; then
    stage "python $version" make test "PYTHON=python$version" "VENV=.venv-$version"
  else
    echo "Left out: there is no python$version."
  fi
done

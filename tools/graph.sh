#!/bin/bash
# graph.sh [depth] [part of a name]: runs engine and recovery through every sequence of up to
# `depth` faults (3 if it is not given), for all workloads or for those whose names contain the part
# (crates/mmcq/tests/graph). Prints runs, states and steps of each workload, and for every violated
# rule the shortest list of faults.
#
# GRAPH_THREADS: number of cores (all if it is not set). GRAPH_STUCK=0: leaves out the card that
# stays busy for ever, which takes nine tenths of the time. To see one run step by step:
# GRAPH_PLAN=12:3,40:0 GRAPH_WORKLOAD=name cargo test -p mmcq --test graph every -- --nocapture.
set -euo pipefail
cd "$(dirname "$0")/.."
export GRAPH_DEPTH=${1:-3} GRAPH_WORKLOAD=${2:-} GRAPH_THREADS=${GRAPH_THREADS:-$(nproc)}
# Optimised it is ten times as fast; in a folder of its own, the other tests are not compiled anew.
export CARGO_PROFILE_TEST_OPT_LEVEL=3 CARGO_PROFILE_DEV_OPT_LEVEL=3
cargo test -p mmcq --test graph --locked --target-dir target/graph every_sequence -- --nocapture

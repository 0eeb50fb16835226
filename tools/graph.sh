#!/bin/bash
# graph.sh [depth] [part of a name]: runs engine and recovery through every sequence of up to so many bad answers (3), over all workloads or those with this in
# their names (crates/mmcq/tests/graph). Prints runs, states and steps of each, and the shortest plan for every sentence that was broken.
#
# GRAPH_THREADS: how many cores (all). GRAPH_STUCK=0: no card stays busy for good, which takes nine tenths of the time.
# One run step by step: GRAPH_PLAN=12:3,40:0 GRAPH_WORKLOAD=name cargo test -p mmcq --test graph every -- --nocapture.
set -euo pipefail
cd "$(dirname "$0")/.."
export GRAPH_DEPTH=${1:-3} GRAPH_WORKLOAD=${2:-} GRAPH_THREADS=${GRAPH_THREADS:-$(nproc)}
# Optimised it is ten times as fast; in a folder of its own, the other tests are not compiled anew.
export CARGO_PROFILE_TEST_OPT_LEVEL=3 CARGO_PROFILE_DEV_OPT_LEVEL=3
cargo test -p mmcq --test graph --locked --target-dir target/graph every_sequence -- --nocapture

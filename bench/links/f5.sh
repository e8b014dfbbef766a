#!/usr/bin/env bash
# F5: publish with 32 peers at 32 bases beside 32 peers at one.
. "$(dirname "$0")/common.sh"
keep bases "$WEFT_BUILD/bench_bases" --rounds "${1:-5}"
tables

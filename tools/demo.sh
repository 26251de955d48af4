#!/bin/sh
# What Jobyard does, on the examples: sh tools/demo.sh PATH/TO/jobyard
set -u
jobyard=$1

show() {
    if [ -t 1 ]; then printf '\n\033[1m$ jobyard %s\033[0m\n' "$*"; else printf '\n$ jobyard %s\n' "$*"; fi
    "$jobyard" "$@"
    code=$?
}

expect() {
    if [ "$code" != "$1" ]; then
        echo "demo: expected exit code $1, got $code" >&2
        exit 1
    fi
}

echo "A file with three faults gives three errors, each with its line and what would be right:"
show validate docs/samples/three-faults.yaml; expect 1
echo
echo "And a job that runs here, on this machine: four ranks, each with a network of its own, add up"
echo "their numbers around a ring. The same file runs on a Kubernetes cluster."
show run examples/genericjob/allreduce.yaml; expect 0
printf '\nNext: docs/tutorial.md. The tests: make test.\n'

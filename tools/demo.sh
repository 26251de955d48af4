#!/bin/sh
# What Jobyard does today, on the examples: sh tools/demo.sh PATH/TO/jobyard
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

echo "Every example is checked as a cluster's API server would check it:"
show validate examples; expect 0
echo
echo "A file with three faults gives three errors, each with its line and what would be right:"
show validate docs/samples/three-faults.yaml; expect 1
echo
echo "Every field is described:"
show explain ptj.spec.elastic; expect 0
echo
echo "And what a job is made of can be seen before it runs:"
show render examples/genericjob/queue.yaml; expect 0
printf '\nNext: docs/tutorial.md. The tests: make test.\n'

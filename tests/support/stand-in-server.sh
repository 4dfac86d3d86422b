#!/bin/sh
# Stands in for the server where the tests test how they start and stop one. It is called as the server is.
echo "called with $*" >&2
echo "the variable is $STAND_IN" >&2
echo '{"level":"info","message":"listening on http://127.0.0.1:4321"}' >&2
trap 'echo "told to end" >&2; exit 3' TERM
while :; do sleep 0.05; done

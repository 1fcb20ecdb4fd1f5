#!/bin/sh
# Runs make targets of one client: tools/client.sh go setup check test
#
# If tools of the client are missing, it says so; only in CI is that an error.
set -eu

cd "$(dirname "$0")/.."
client=$1
shift
case $client in
go) needs="go gcc" ;;
typescript) needs="node npm" ;;
java) needs="java mvn" ;;
*) echo "no such client: $client" >&2 && exit 2 ;;
esac
for tool in $needs; do
	if ! command -v "$tool" >/dev/null; then
		echo "The $client client is left out: $tool is not installed." >&2
		test -z "${CI-}" && exit 0
		exit 1
	fi
done
exec "${MAKE:-make}" --no-print-directory -C "clients/$client" "$@"

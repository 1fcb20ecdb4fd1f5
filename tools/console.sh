#!/bin/sh
# Builds the console: from console/ and the sources of the TypeScript client the one file gateway/console.html.
#
#   tools/console.sh            write it
#   tools/console.sh --check    fail if its sources break a rule, or what is committed is stale
#
# Needs Node 20 or newer with npm. If they are missing, a check says so; only in CI is that an error.
set -eu

cd "$(dirname "$0")/.."
page=gateway/console.html

for tool in node npm; do
	if ! command -v "$tool" >/dev/null; then
		echo "The console is left out: $tool is not installed." >&2
		test "${1-}" = --check && test -z "${CI-}" && exit 0
		exit 1
	fi
done

cd console
ready=node_modules/.ready
if [ ! -e "$ready" ] || [ package.json -nt "$ready" ]; then
	# Each package is named with its version in package.json; a lock file would name the registry that it was made with.
	npm install --no-package-lock --no-audit --no-fund --loglevel=error
	touch "$ready"
fi

case "${1-}" in
--check)
	npm run --silent check
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	npm run --silent build -- --outDir "$fresh" --logLevel warn
	cmp "$fresh/console.html" "../$page" || { echo "$page is stale, run make console" >&2; exit 1; }
	;;
"") npm run --silent build ;;
*) echo "no such option: $1" >&2 && exit 2 ;;
esac

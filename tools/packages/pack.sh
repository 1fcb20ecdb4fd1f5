#!/usr/bin/env bash
# Packs each client as its users install it: tools/packages/pack.sh FOLDER
#
#   FOLDER/python/  the sdist, and the wheel without anything compiled
#   FOLDER/npm/     the archive of npm
#   FOLDER/maven/   a repository of Maven, with sources and javadoc
#   FOLDER/go/      what a Go proxy serves
#
# Needs Go, Node with npm, and Java with Maven. tools/packages/try.py installs each and uses it.
set -euo pipefail
cd "$(dirname "$0")/../.."

mkdir -p "$1"
folder=$(cd "$1" && pwd)
rm -rf "$folder"/{python,npm,maven,go}

# Its own compiler is none: the wheels that have something compiled are of one machine.
CC=none uv build --quiet --build-constraints constraints.txt --out-dir "$folder/python" .
uvx --quiet twine@7.0.0 check --strict "$folder"/python/taskyard-*

make --no-print-directory -C clients/typescript clean setup
mkdir -p "$folder/npm"
(cd clients/typescript && npm pack --silent --pack-destination "$folder/npm")

(cd clients/java && mvn --quiet --batch-mode -Prelease -DskipTests clean deploy \
  -DaltDeploymentRepository="packed::file:$folder/maven")

python tools/packages/go_proxy.py "$folder/go"

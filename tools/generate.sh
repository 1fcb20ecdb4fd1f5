#!/bin/sh
# Makes what is generated: from proto/ the Python stubs, the descriptor set of the gateway, the OpenAPI description and
# docs/use/api.md, from third_party/keda the Python stubs of KEDA's contract, from the model of the settings the tables of
# docs/operate/settings.md and a part of the schema of the Helm chart, from the requirements in the protos the table of
# docs/operate/access.md, and from the docstrings of the Python SDK docs/use/python.md.
#
#   tools/generate.sh                  write them
#   tools/generate.sh --check          fail if the protos break a rule, or what is committed is stale
#   tools/generate.sh --breaking       fail if the protos, or the description, break users of the newest release
#   tools/generate.sh --release V      keep the protos and the description as those of the release V, such as 0.3.0
#
# Needs buf, python with grpc_tools, protoc-gen-mypy and protoc-gen-mypy_grpc; `make setup` puts them into .venv.
set -eu

cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
export PATH

stubs=clients/python/taskyard/v1
keda=server/taskyard_server/keda
descriptors=gateway/taskyard.binpb
description=gateway/openapi.json
bodies=gateway/strict_json.lua
api=docs/use/api.md
settings=docs/operate/settings.md
access=docs/operate/access.md
chart=deploy/helm/taskyard/values.schema.json
python=docs/use/python.md
# Of each release the protos, as `buf breaking` takes them, and the OpenAPI description.
released=released

# The Google protos that ours import, and those that a gRPC status may carry to the gateway. Only these: the descriptor
# set holds every file of both modules.
copy_googleapis() {
	rm -rf third_party/googleapis
	python - third_party/googleapis google/api/annotations.proto google/api/http.proto google/api/httpbody.proto \
		google/rpc/error_details.proto google/rpc/status.proto <<-'PYTHON'
		import pathlib, shutil, sys
		import google.api.annotations_pb2

		installed = pathlib.Path(google.api.annotations_pb2.__file__).parents[2]
		folder, *names = sys.argv[1:]
		for name in names:
		    copy = pathlib.Path(folder, name)
		    copy.parent.mkdir(parents=True, exist_ok=True)
		    shutil.copyfile(installed / name, copy)
	PYTHON
}

# Generates everything below the folder $1.
generate_into() {
	mkdir -p "$1/server" "$1/$(dirname "$descriptors")" "$1/$(dirname "$settings")" "$1/$(dirname "$api")" \
		"$1/$(dirname "$chart")"
	buf generate --output "$1"
	# It is no module of buf: not ours, and not what the gateway translates.
	python -m grpc_tools.protoc "--proto_path=taskyard_server/keda=third_party/keda" "--python_out=$1/server" \
		"--grpc_python_out=$1/server" "--mypy_out=quiet:$1/server" "--mypy_grpc_out=quiet:$1/server" \
		taskyard_server/keda/externalscaler.proto
	buf build --as-file-descriptor-set --exclude-source-info --output "$1/$descriptors"
	buf build --as-file-descriptor-set --output - | python tools/openapi.py >"$1/$description"
	buf build --as-file-descriptor-set --output - | python tools/api_doc.py >"$1/$api"
	buf build --as-file-descriptor-set --output - | python tools/bodies.py "$bodies" "$1/$bodies"
	python tools/settings_doc.py "$settings" "$1/$settings"
	python tools/chart_schema.py "$chart" "$1/$chart"
	python tools/access_doc.py "$access" "$1/$access"
	python tools/python_doc.py >"$1/$python"
}

# Names the generated files below the folder $1.
generated_in() {
	(cd "$1" && find "$stubs" "$keda" -name '*_pb2*.py' -o -name '*_pb2*.pyi' &&
		printf '%s\n' "$descriptors" "$description" "$bodies" "$api" "$settings" "$access" "$chart" "$python")
}

copy_googleapis
buf lint

case "$*" in
'')
	find "$stubs" "$keda" \( -name '*_pb2*.py' -o -name '*_pb2*.pyi' \) -exec rm {} +
	generate_into .
	;;
--check)
	buf format --diff --exit-code proto
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	generate_into "$fresh"
	stale=$({ generated_in . && generated_in "$fresh"; } | LC_ALL=C sort -u | while read -r name; do
		cmp -s "$name" "$fresh/$name" || echo "  $name"
	done)
	if [ -n "$stale" ]; then
		printf 'Stale, run `make generate`:\n%s\n' "$stale" >&2
		exit 1
	fi
	;;
--breaking)
	version=$(find "$released" -name '*.binpb' | sed 's|.*/||; s|\.binpb$||' | sort -V | tail -n 1)
	if [ -z "$version" ]; then
		echo "$released/ holds no release to compare with; $0 --release VERSION adds one." >&2
		exit 1
	fi
	before=$(mktemp)
	trap 'rm "$before"' EXIT
	buf breaking proto --against "$released/$version.binpb"
	gzip -dc "$released/$version.openapi.json.gz" >"$before"
	python tools/rest_breaking.py "$before" "$description"
	echo "Nothing breaks users of $version."
	;;
"--release "[0-9]*.[0-9]*.[0-9]*)
	if [ -e "$released/$2.binpb" ]; then
		echo "$released/ has $2 already, and what is released stays as it is." >&2
		exit 1
	fi
	mkdir -p "$released"
	gzip -n9 -c "$description" >"$released/$2.openapi.json.gz"
	# The comments would make it five times as large.
	buf build proto --exclude-source-info --output "$released/$2.binpb"
	;;
*)
	echo "usage: $0 [--check | --breaking | --release VERSION]" >&2
	exit 2
	;;
esac

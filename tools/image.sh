#!/usr/bin/env bash
# Builds the image of the Dockerfile where no Docker engine runs: tools/image.sh WHEEL FOLDER
#
# As root, by buildah, on a base of Debian's packages that stands for python:*-slim. The base is kept for the next time
# (~/.cache/taskyard). In the folder is then what a runtime of containers needs: `rootfs`, and `image.json`.
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=$1
folder=$2
kept=${XDG_CACHE_HOME:-$HOME/.cache}/taskyard/image
case $wheel in
  *-cp311-*) suite=bookworm python=3.11 ;;
  *-cp313-*) suite=trixie python=3.13 ;;
  *) echo "no Debian has the Python of $wheel: it is made for 3.11 and 3.13" >&2; exit 1 ;;
esac

mkdir -p "$kept" "$folder/context/dist"
exec 9>"$kept/lock"
flock 9

base=$kept/$suite.tar
if [ ! -f "$base" ]; then
  leave_out=()
  for path in man doc locale; do leave_out+=("--dpkgopt=path-exclude=/usr/share/$path/*"); done
  mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates "${leave_out[@]}" "$suite" "$kept/new-$suite.tar" >&2
  mv "$kept/new-$suite.tar" "$base"
fi

buildah() { command buildah --storage-driver vfs --root "$folder/storage" --runroot "$folder/run" "$@"; }
made=$(buildah from scratch)
buildah add --quiet "$made" "$base" / >/dev/null
buildah config --env PATH=/usr/local/bin:/usr/bin:/bin "$made"
buildah commit --quiet --rm "$made" "docker.io/library/python:$python-slim" >/dev/null

# What packages come from, and who vouches for that, is the machine's to say.
mounts=(--volume /etc/ssl/certs:/etc/ssl/certs:ro)
[ ! -f /etc/pip.conf ] || mounts+=(--volume /etc/pip.conf:/etc/pip.conf:ro)
mkdir -p "$folder/uv"
echo 'native-tls = true' > "$folder/uv/uv.toml"
mounts+=(--volume "$folder/uv:/etc/uv:ro")
cp Dockerfile LICENSE constraints.txt "$folder/context"
cp "$wheel" "$folder/context/dist"
buildah bud --quiet --format docker --isolation chroot --network host "${mounts[@]}" --build-arg "PYTHON=$python" \
  --tag taskyard "$folder/context" >/dev/null
buildah inspect --type image taskyard > "$folder/image.json"
made=$(buildah from taskyard)
ln -sfn "$(buildah mount "$made")" "$folder/rootfs"

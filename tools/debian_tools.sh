#!/usr/bin/env bash
# Brings programs of Debian that some tests need and pip does not have: debian_tools.sh chromium promtool containers
# As root it installs what is missing; as anybody else it says what to install.
set -euo pipefail

is_updated=

# The lists of packages of a fresh machine are empty, and those of an old one name packages that are gone.
update() {
  [ -n "$is_updated" ] || apt-get update -qq
  is_updated=1
}

# Where there is the shell, the tests need no more: it has no windows, and takes less of a processor.
install_chromium() {
  update
  local package=chromium-headless-shell
  apt-cache show "$package" >/dev/null 2>&1 || package=chromium
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$package" fonts-liberation
}

# Installed, the package `prometheus` would run a server; this one file of it does not need the rest.
install_promtool() {
  update
  local folder
  folder=$(mktemp -d)
  (cd "$folder" && apt-get download -qq -o APT::Sandbox::User=root prometheus && dpkg -x prometheus_*.deb .)
  install -m 755 "$folder/usr/bin/promtool" /usr/local/bin/promtool
  rm -r "$folder"
}

# What builds an image and runs it where no Docker engine does.
install_containers() {
  update
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends buildah crun mmdebstrap
}

missing=()
for name in "$@"; do
  case $name in
    chromium) command -v chromium-headless-shell chromium >/dev/null || missing+=("$name") ;;
    containers) for tool in buildah crun mmdebstrap; do command -v $tool >/dev/null || { missing+=("$name"); break; }; done ;;
    promtool) command -v "$name" >/dev/null || missing+=("$name") ;;
    *) echo "debian_tools.sh knows chromium, promtool and containers, not $name" >&2; exit 2 ;;
  esac
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}; on Debian, as root: tools/debian_tools.sh ${missing[*]}" >&2
  exit 1
fi
for name in "${missing[@]}"; do
  "install_$name"
done

#!/usr/bin/env bash
# Brings the servers that bench/others.py measures and pip does not have: programs.sh FOLDER
# redis-server and beanstalkd are unpacked from Debian's packages, nats-server and temporal are built by Go. Nothing is
# installed outside of FOLDER. What cannot be had is left out, and said.
set -uo pipefail

folder=$(realpath -m "$1")
mkdir -p "$folder/debian"
cd "$folder/debian" || exit 1

# A program of Debian, started with the libraries that were unpacked beside it.
wrap() {
  cat > "$folder/$1" <<WRAPPED
#!/bin/sh
here="$folder/debian"
LD_LIBRARY_PATH=\$(echo "\$here"/usr/lib/*-linux-gnu) exec "\$here/usr/bin/$1" "\$@"
WRAPPED
  chmod +x "$folder/$1"
}

[ -x "$folder/redis-server" ] || if apt-get download -qq -o APT::Sandbox::User=root \
    redis-server redis-tools libjemalloc2 liblzf1; then
  for package in *.deb; do dpkg -x "$package" .; done
  wrap redis-server
else
  echo "no redis-server: Debian's packages cannot be had here" >&2
fi
[ -x "$folder/beanstalkd" ] || if apt-get download -qq -o APT::Sandbox::User=root beanstalkd; then
  dpkg -x beanstalkd_*.deb .
  wrap beanstalkd
else
  echo "no beanstalkd: Debian's package cannot be had here" >&2
fi
rm -f -- *.deb
export GOBIN=$folder
[ -x "$folder/nats-server" ] || go install github.com/nats-io/nats-server/v2@v2.15.2 || echo "no nats-server" >&2
# Later releases cannot be installed by their name: their go.mod replaces a module.
[ -x "$folder/temporal" ] || go install github.com/temporalio/cli/cmd/temporal@v1.5.1 || echo "no temporal" >&2

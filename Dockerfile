# Server, gateway and console in one image (docs/operate/install.md): `docker build -t taskyard .`
ARG PYTHON=3.13

# The wheel of dist/ that fits, or else one made of the sources, and all that running needs.
FROM docker.io/library/python:${PYTHON}-slim AS build
WORKDIR /build
COPY . .
RUN set -eu; \
    python3 -m venv .uv; \
    .uv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv; \
    tag=$(python3 -c 'import sys; print("cp%d%d" % sys.version_info[:2])'); \
    if ! ls dist/taskyard-*-$tag-*_$(uname -m).whl 2>/dev/null; then \
      apt-get update -qq; apt-get install -qq -y --no-install-recommends gcc libc6-dev; \
      .uv/bin/uv build --quiet --wheel --build-constraint constraints.txt --python "$(command -v python3)"; \
    fi; \
    .uv/bin/uv venv --quiet --python "$(command -v python3)" /opt/taskyard; \
    .uv/bin/uv pip install --quiet --python /opt/taskyard --compile-bytecode --constraint constraints.txt \
      "$(ls dist/taskyard-*-$tag-*_$(uname -m).whl)[server,gateway,otel]"

FROM docker.io/library/python:${PYTHON}-slim
LABEL org.opencontainers.image.title="Taskyard" \
      org.opencontainers.image.description="A gRPC control plane that queues, leases and tracks tasks for fleets of agents" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/taskyard /opt/taskyard
COPY --from=build /build/LICENSE /usr/share/doc/taskyard/LICENSE
# Its home is the one folder that it writes to, and where it makes its sockets if there is no /tmp to write to.
RUN echo 'taskyard:x:10001:' >> /etc/group; \
    echo 'taskyard:x:10001:10001::/var/lib/taskyard:/usr/sbin/nologin' >> /etc/passwd; \
    install -d -m 700 -o 10001 -g 10001 /var/lib/taskyard
ENV PATH=/opt/taskyard/bin:$PATH \
    HOME=/var/lib/taskyard \
    PYTHONDONTWRITEBYTECODE=1 \
    TASKYARD_ADDRESS=https://localhost:50051 \
    TASKYARD_CA=/var/lib/taskyard/ca.pem \
    TASKYARD_TOKEN_FILE=/var/lib/taskyard/admin.token
USER 10001:10001
WORKDIR /var/lib/taskyard
VOLUME /var/lib/taskyard
EXPOSE 50051 9867 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s CMD ["taskyard", "health"]
ENTRYPOINT ["taskyard"]
# TLS, roles and tokens are made in the volume at the first start. With --config FILE they are yours.
CMD ["up", "--secure", "/var/lib/taskyard", "--grpc", "0.0.0.0:50051", "--rest", "0.0.0.0:9867", "--metrics", "0.0.0.0:9464"]

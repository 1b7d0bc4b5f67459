# An image of svc, from the package that `npm run package` makes in a clone:
#
#   npm run package && docker build -t svc .
#
# docs/running.md, "Image", says how it is run.

# The system that the server runs in: any with glibc, a shell and, if libatomic is not there, apt.
ARG BASE=debian:bookworm-slim
# The system that installs the package: it needs npm, and nothing else of it gets into the image.
ARG NPM=node:24-bookworm-slim

FROM ${NPM} AS install
# More flags for npm, such as a registry of your own.
ARG NPM_FLAGS=""
COPY *.tgz /package/
WORKDIR /opt/svc
# What only a compiler, a reader or another platform needs is left out.
RUN set -eu; \
  set -- /package/*.tgz; \
  [ $# -eq 1 ] || { echo "there are $# packages beside the Dockerfile, and one is installed: $*" >&2; exit 1; }; \
  npm install --omit=dev --ignore-scripts --no-audit --no-fund ${NPM_FLAGS} "svc@file:$1"; \
  cd node_modules; \
  rm -rf node-linux-*/include node-linux-*/share node-linux-*/*.md .cache; \
  cd @nxtedition/rocksdb; \
  rm -rf deps prebuilds.zip binding.cc *.h; \
  find prebuilds -mindepth 1 -maxdepth 1 ! -name "linux-$(node -p process.arch)" -exec rm -r {} +

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="svc" \
  org.opencontainers.image.description="A single-node host for WebAssembly actors with Internet Computer canister semantics" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
# Node is linked with it.
RUN ldconfig -p | grep -q libatomic.so.1 \
  || { apt-get update && apt-get install -y --no-install-recommends libatomic1 && rm -rf /var/lib/apt/lists/*; }
COPY --from=install /opt/svc /opt/svc
# A manifest without actors, for as long as there is no other at /app: actors are installed by POST /install, too.
RUN install -d -m 0700 -o 65532 -g 65532 /state \
  && install -d /app && echo '{ "actors": {} }' > /app/actors.json \
  && ln -s /opt/svc/node_modules/node-linux-*/bin/node /usr/local/bin/node
# The token comes from a file. A variable SVC_TOKEN, or the flag --auth-token-file, goes before it.
ENV SVC_TOKEN_FILE=/run/secrets/token
USER 65532:65532
WORKDIR /app
VOLUME /state
EXPOSE 7000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["node", "-e", "fetch('http://127.0.0.1:7000/health/ready').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# The command becomes the server in this very process, PID 1, which SIGTERM stops in order. More flags go behind it.
ENTRYPOINT ["/opt/svc/node_modules/.bin/svc", "--manifest", "/app/actors.json", "--state", "/state", "--listen", "0.0.0.0:7000"]

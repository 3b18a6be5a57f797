# The image of kube-ipvs for linux/amd64 and linux/arm64. dev/image/assemble.ts does the work, with or without a container engine; the final
# stage only takes over its two folders. Build arguments:
#   NODE_IMAGE         a Debian with node, npm and apt, for the first stage only
#   BASE_IMAGE         what the files are added to: nothing
#   SOURCE_DATE_EPOCH  the time of the release, in seconds since 1970: `git log -1 --format=%ct`
#   VARIANT            full, or without-iptables: for ipvs mode with the nftables firewall, which starts no program
#   COMPARE_NODE       empty where nodejs.org cannot be reached
#   CREATED, REVISION, SOURCE, VERSION  for the labels; CREATED is the time of the release as ISO 8601
ARG NODE_IMAGE=docker.io/library/node:24.21.0-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe
ARG BASE_IMAGE=scratch

FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS build
ARG TARGETARCH
ARG SOURCE_DATE_EPOCH
ARG COMPARE_NODE=--compare-node
ARG VARIANT=full
WORKDIR /src
COPY . .
RUN node dev/bootstrap.mjs dependencies \
  && SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} node_modules/.bin/node dev/image/assemble.ts ${COMPARE_NODE} --variant "${VARIANT}" --arch "${TARGETARCH}" --into /image

FROM ${BASE_IMAGE}
ARG CREATED
ARG REVISION
ARG SOURCE
ARG VERSION=0.1.0
COPY --from=build /image/base/ /
COPY --from=build /image/program/ /
LABEL org.opencontainers.image.title="kube-ipvs" \
  org.opencontainers.image.description="A Kubernetes service proxy that reconciles IPVS and iptables over netlink" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.created="${CREATED}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.source="${SOURCE}" \
  org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER 0:0
WORKDIR /
ENTRYPOINT ["/usr/local/bin/kube-ipvs"]

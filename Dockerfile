# The image of every part of CausalStore: one static binary.
#
#   docker build -t causalstore .
#   docker build -t causalstore --build-arg BASE=<distroless static, nonroot> .   # with CA certificates and time zones

ARG GO_VERSION=1.26.8
ARG DEBIAN=bookworm
ARG BASE=scratch

FROM --platform=${BUILDPLATFORM:-linux/amd64} golang:${GO_VERSION}-${DEBIAN} AS build
ARG GOPROXY
ENV GOPROXY=${GOPROXY} CGO_ENABLED=0 GOTOOLCHAIN=local
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS=linux
ARG TARGETARCH
ARG REVISION=unknown
RUN GOOS=${TARGETOS} GOARCH=${TARGETARCH:-$(go env GOARCH)} go build -buildvcs=false -trimpath -ldflags="-s -w -X github.com/causalstore/causalstore/version.revision=${REVISION}" -o /out/causalstore . \
 && mkdir -p /out/writable && mkdir -m 0700 /out/writable/data && mkdir -m 1777 /out/writable/tmp

FROM ${BASE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="CausalStore" \
      org.opencontainers.image.description="Causal consistency across regions for the Redis clients you already have" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/causalstore/causalstore" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build --chown=65532:65532 /out/writable/ /
COPY --from=build /src/LICENSE /licenses/LICENSE
COPY --from=build /out/causalstore /causalstore
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /data
ENTRYPOINT ["/causalstore"]
CMD ["--help"]

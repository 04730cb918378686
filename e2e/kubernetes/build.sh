#!/bin/sh
# Builds etcd, kube-apiserver and helm from their Go modules into the folder given; about 15 CPU-minutes the first time.
set -eu
out=${1:?folder for the binaries}
version=v1.36.3 # as in go.mod
cd "$(dirname "$0")"
mkdir -p "$out"
build() { CGO_ENABLED=0 "${GO:-go}" build -buildvcs=false -trimpath "$@"; }
component=k8s.io/component-base/version
build -o "$out/kube.new" -ldflags \
  "-s -w -X $component.gitVersion=$version -X $component.gitMajor=1 -X $component.gitMinor=36 -X k8s.io/client-go/pkg/version.gitVersion=$version" .
mv "$out/kube.new" "$out/kube"
ln -sf kube "$out/etcd"
ln -sf kube "$out/kube-apiserver"
(cd ../helm && build -o "$out/helm.new" -ldflags "-s -w" helm.sh/helm/v3/cmd/helm)
mv "$out/helm.new" "$out/helm"
echo "etcd, kube-apiserver $version and helm are in $out"

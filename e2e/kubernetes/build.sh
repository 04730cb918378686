#!/bin/sh
# Builds etcd and kube-apiserver from their Go modules into the folder given; about 15 CPU-minutes the first time.
set -eu
out=${1:?folder for the binaries}
version=v1.36.3
cd "$(dirname "$0")"
mkdir -p "$out"
component=k8s.io/component-base/version
CGO_ENABLED=0 "${GO:-go}" build -buildvcs=false -trimpath -o "$out/kube.new" \
  -ldflags "-s -w -X $component.gitVersion=$version -X $component.gitMajor=1 -X $component.gitMinor=36 -X k8s.io/client-go/pkg/version.gitVersion=$version" .
mv "$out/kube.new" "$out/kube"
ln -sf kube "$out/etcd"
ln -sf kube "$out/kube-apiserver"
echo "etcd and kube-apiserver $version are in $out"

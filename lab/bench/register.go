package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/ports"
)

// startRegister starts an etcd with one server, which keeps the configurations of the groups of all data centers. It
// has the certificate of the first one.
func (p *processes) startRegister(ctx context.Context) error {
	if p.regions == nil || len(p.topology.DataCenters) != 1 {
		return errors.New("groups of several members are measured in one data center, with mutual TLS")
	}
	dc := p.topology.DataCenters[0].Name
	dir := filepath.Join(p.dir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	certificate, key, err := p.regions.issue(dc, contract.RoleEtcd, "0")
	if err != nil {
		return err
	}
	files := map[string][]byte{"tls.crt": certificate, "tls.key": key,
		"ca.crt": p.regions.authorities[dc].CertificatePEM()}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	addrs, err := ports.Free(2)
	if err != nil {
		return err
	}
	clients, peers := "https://"+addrs[0], "http://"+addrs[1]
	p.register, err = startProgram(nil, dir, "etcd", p.etcd, "--data-dir", filepath.Join(dir, "data"),
		"--log-level", "error",
		"--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers,
		"--initial-advertise-peer-urls", peers,
		"--initial-cluster", "default="+peers, "--cert-file", filepath.Join(dir, "tls.crt"), "--key-file",
		filepath.Join(dir, "tls.key"),
		"--trusted-ca-file", filepath.Join(dir, "ca.crt"), "--client-cert-auth")
	if err != nil {
		return fmt.Errorf(
			"%w; groups of several members need etcd: install it (Debian: apt-get install etcd-server), or name the "+
				"program with --etcd", err)
	}
	p.config.Register = &contract.Register{Etcd: &contract.EtcdRegister{Endpoints: addrs[:1]}}
	return p.register.await(ctx, time.Minute, func() bool {
		c, err := net.Dial("tcp", addrs[0])
		if err == nil {
			_ = c.Close() // it was only to see whether somebody listens
		}
		return err == nil
	})
}

package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/yaml"
)

// Bounds of what Prepare asks of other members. They change their membership only once they have been connected for
// five seconds; a pod that gives up tries again when Kubernetes starts its container again.
const (
	listTimeout = 5 * time.Second
	joinTimeout = 30 * time.Second
	joinRetry   = 500 * time.Millisecond
)

// Prepare writes the configuration file with which a member starts: it decides whether the member goes on with its
// data, founds the cluster with the others, or has lost its data and joins again.
//
// A member that has lost its data must not go on under its old id: raft counts on what it has acknowledged. So the
// others, which must be a quorum, first remove that id and add a new one. A member that does not know whether it has
// lost data, because no other one answers, may only found the cluster while that has never served.
func Prepare(ctx context.Context, c *Cluster, name, out string) error {
	i := slices.IndexFunc(c.Members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return fmt.Errorf("%s is none of the members of this etcd", name)
	}
	config, err := c.decideStart(ctx, c.Members[i])
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "prepared the start of etcd", "member", name, "state", config.InitialClusterState, "cluster",
		config.InitialCluster)
	text, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("write the configuration of etcd: %w", err)
	}
	return os.WriteFile(filepath.Join(out, ConfigFile), text, 0o600)
}

// The values of initial-cluster-state. A member with data ignores it.
const (
	stateNew      = "new"
	stateExisting = "existing"
)

func (c *Cluster) decideStart(ctx context.Context, own Member) (Config, error) {
	logs, err := filepath.Glob(filepath.Join(c.Config.DataDir, "member", "wal", "*.wal"))
	if err != nil {
		return Config{}, err // unreachable: the pattern is well-formed
	}
	others := slices.DeleteFunc(slices.Clone(c.Members), func(m Member) bool { return m.Name == own.Name })
	if len(logs) > 0 {
		return c.start(own, stateNew, c.Members), nil
	}
	if len(others) > 0 {
		members, err := c.join(ctx, own, others)
		switch {
		case err == nil && members != nil:
			return c.start(own, stateExisting, members), nil
		case err != nil && c.Founded:
			return Config{},
				fmt.Errorf(
					"this member has no data, and joins again once the others serve: %w; if their data is lost too, "+
						"see docs/runbooks.md#causalstoreetcdwithoutquorum", err)
		}
	} else if c.Founded {
		return Config{},
			errors.New(
				"the data of this etcd, which has one member, is lost; see " +
					"docs/runbooks.md#causalstoreetcdwithoutquorum")
	}
	return c.start(own, stateNew, c.Members), nil
}

// join makes the others give this member a new id, and returns the members of the cluster. It returns none if this
// member has never been one and is expected to found the cluster with them.
func (c *Cluster) join(ctx context.Context, own Member, others []Member) ([]Member, error) {
	client, err := c.connect(others)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }() // nothing is buffered
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	listing, cancelList := context.WithTimeout(ctx, listTimeout)
	defer cancelList()
	list, err := client.MemberList(listing) // linearizable: a quorum has answered
	if err != nil {
		return nil, fmt.Errorf("list the members: %w", err)
	}
	if was := find(list.Members, own); was != nil {
		if !c.Founded && len(was.ClientURLs) == 0 {
			return nil, nil
		}
		if err := untilHealthy(ctx, func() error {
			_, err := client.MemberRemove(ctx, was.ID)
			return err
		}); err != nil {
			return nil, fmt.Errorf("remove the id of before: %w", err)
		}
	}
	var added *clientv3.MemberAddResponse
	err = untilHealthy(ctx, func() (err error) {
		added, err = client.MemberAdd(ctx, []string{own.PeerURL})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("add this member: %w", err)
	}
	var members []Member
	for _, m := range added.Members {
		for _, url := range m.PeerURLs {
			members = append(members, Member{Name: c.nameOf(m, url), PeerURL: url})
		}
	}
	return members, nil
}

// untilHealthy repeats a change of the membership while the members refuse it because they have been connected for too
// short a time.
func untilHealthy(ctx context.Context, change func() error) error {
	for {
		err := change()
		if !errors.Is(err, rpctypes.ErrUnhealthy) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(joinRetry):
		}
	}
}

// nameOf returns the name of a member; one that has not started yet has told none.
func (c *Cluster) nameOf(m *etcdserverpb.Member, peerURL string) string {
	if i := slices.IndexFunc(c.Members, func(known Member) bool { return known.PeerURL == peerURL }); i >= 0 {
		return c.Members[i].Name
	}
	return m.Name
}

// find returns the entry of a member: one that has not started yet has no name.
func find(members []*etcdserverpb.Member, own Member) *etcdserverpb.Member {
	for _, m := range members {
		if m.Name == own.Name || slices.Contains(m.PeerURLs, own.PeerURL) {
			return m
		}
	}
	return nil
}

// connect returns a client with the certificate of a member.
func (c *Cluster) connect(to []Member) (*clientv3.Client, error) {
	files := c.Config.Peers
	bundle, err := os.ReadFile(files.TrustedCA)
	if err != nil {
		return nil, fmt.Errorf("read the bundle: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(files.ClientCert, files.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	var endpoints []string
	for _, m := range to {
		endpoints = append(endpoints, m.ClientURL)
	}
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: listTimeout,
		TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}})
}

package process

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/topology"
)

// checkRegister checks where the configurations of groups are. A group of one member needs no register.
func (s *Settings) checkRegister(p *problems) {
	c := s.Config.Register
	if c == nil {
		if s.Topology == nil || int(s.Self.DC) >= len(s.Topology.DCs) {
			return // locate has said so
		}
		field := membersField(s.Self.Part)
		switch n := s.members(); {
		case n > 1:
			p.add("register",
				"missing, and the topology gives each %s of %s %d members (%s): they need an etcd to agree who is "+
					"the primary. Give register.etcd.endpoints, or set %s to 1",
				s.Self.Part, s.Config.DataCenter, n, field, field)
		case s.Self.Part == topology.Middleman && s.isReplicated():
			p.add("register",
				"missing, and storage.replicated makes this middleman a member of a group, which needs an etcd. Give "+
					"register.etcd.endpoints, or leave storage.replicated out")
		}
		return
	}
	if c.Etcd == nil {
		p.add("register.etcd",
			"missing; give endpoints there, or leave register out if no coordinator or shard has more than one member")
		return
	}
	etcd := *c.Etcd
	setDefault(&etcd.Prefix, register.DefaultPrefix)
	s.Config.Register = &contract.Register{Etcd: &etcd}
	s.checkEndpoints(&etcd, p)
	for _, segment := range strings.Split(etcd.Prefix, "/") {
		if segment == "" || segment == "." || segment == ".." {
			p.add("register.etcd.prefix",
				"%q has an empty segment, or one of dots; give words with slashes between them, such as %s",
				etcd.Prefix, register.DefaultPrefix)
			break
		}
	}
	if t := etcd.TLS; t != nil && (t.CA == "" || (t.Cert == "") != (t.Key == "")) {
		p.add("register.etcd.tls",
			"give ca, and both cert and key or neither; leave tls out for an etcd whose servers have certificates of "+
				"the store, with the role %s", contract.RoleEtcd)
	}
	if (etcd.UsernameFile == "") != (etcd.PasswordFile == "") {
		p.add("register.etcd.usernameFile", "give both usernameFile and passwordFile, or neither")
	} else if etcd.UsernameFile != "" {
		for field, file := range map[string]string{"usernameFile": etcd.UsernameFile,
			"passwordFile": etcd.PasswordFile} {
			_, err := readSecret("register.etcd."+field, file)
			p.addError(err)
		}
	}
}

// members returns how many members the group of this process has by the topology.
func (s *Settings) members() int { return s.Topology.DCs[s.Self.DC].Members(s.Self.Part) }

// isReplicated reports whether the storage of this middleman is that of a member of a group.
func (s *Settings) isReplicated() bool { return s.members() > 1 || s.Config.Storage.Replicated }

// checkEndpoints checks the addresses of the servers, and that they are not reached in plain text over a network.
func (s *Settings) checkEndpoints(c *contract.EtcdRegister, p *problems) {
	if n := len(c.Endpoints); n == 0 || n > register.MaxEndpoints {
		p.add("register.etcd.endpoints", "%d given; give host:port of each server, 1 to %d of them", n,
			register.MaxEndpoints)
	}
	for i, addr := range c.Endpoints {
		field := fmt.Sprintf("register.etcd.endpoints[%d]", i)
		switch {
		case strings.Contains(addr, "://"):
			p.add(field, "%q is a URL; give host:port, and tls for https", addr)
			continue
		case slices.Contains(c.Endpoints[:i], addr):
			p.add(field, "%s is there twice", addr)
		}
		checkAddress(field, addr, p)
		if c.TLS == nil && s.Config.TLS == nil && !s.Config.AllowPlaintext && !IsLoopback(addr) {
			p.add("register.etcd.tls",
				"missing, as is tls, and %s is another machine: whoever is between could read and change who the "+
					"primaries are. Give one of them; or, in a network that only the parts can reach, set "+
					"allowPlaintext: true (--allow-plaintext)", addr)
		}
	}
}

// checkShardLog checks where the log of a member of a shard is.
func (s *Settings) checkShardLog(p *problems) {
	if s.Topology == nil || int(s.Self.DC) >= len(s.Topology.DCs) || !s.isReplicated() {
		return
	}
	c := &s.Config
	switch dir := filepath.Clean(c.DataDir); {
	case c.DataDir == "":
		why, instead := "storage.replicated makes this middleman keep a log", "leave storage.replicated out"
		if n := s.members(); n > 1 {
			why, instead = fmt.Sprintf("the topology gives each middleman of %s %d members (shardMembers)",
				c.DataCenter, n), "set shardMembers to 1"
		}
		p.add("dataDir", "missing, and %s: give a folder on a durable volume for the log of this member, or %s",
			why, instead)
	case c.Storage.Engine == contract.EngineEmbedded && filepath.Clean(c.Storage.Embedded.Dir) == dir:
		p.add("dataDir", "%s is storage.embedded.dir as well; give the log of this member a folder of its own",
			c.DataDir)
	}
	if b := c.Limits.LogBytes; b != 0 && b < node.MinLogBytes {
		p.add("limits.logBytes", "%d bytes; give at least %dMi", b, node.MinLogBytes>>20)
	}
}

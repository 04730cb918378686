package process

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Settings are a configuration that was checked for one part, with all that it refers to.
type Settings struct {
	Config   Config // with the defaults filled in
	Topology *topology.Topology
	Self     topology.Node
	Scope    node.Scope
	Snapshot bool
	Static   bool
	LogLevel slog.Level

	directory       map[topology.Node]string
	tokenKey        string // strings, so that settings are compared easily
	clientPassword  string
	storagePassword string
}

// faults collects what is wrong, one line each: the field, and what to do.
type faults []error

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, fmt.Errorf("  %s: "+format, append([]any{field}, args...)...))
}

func (f *faults) note(err error) {
	if err != nil {
		*f = append(*f, fmt.Errorf("  %w", err))
	}
}

// settings checks everything that the part uses.
func (c Config) settings(part topology.Part) (*Settings, error) {
	s := &Settings{Config: c}
	s.defaults(part)
	var f faults
	s.place(part, &f)
	s.listen(part, &f)
	s.words(&f)
	s.files(part, &f)
	switch part {
	case topology.Coordinator:
		s.coordinator(&f)
	case topology.Middleman:
		s.storage(&f)
	}
	return s, errors.Join(f...)
}

func (s *Settings) defaults(part topology.Part) {
	c := &s.Config
	fill := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	fill(&c.Listen.Redis, "127.0.0.1:6379")
	fill(&c.Listen.HTTP, ":7480")
	fill(&c.Session.Scope, string(node.ScopePod))
	fill(&c.Session.Reads, "Latest")
	fill(&c.Binding, "Dynamic")
	fill(&c.Log.Level, "info")
	fill(&c.Log.Format, "text")
	if c.Cache == nil {
		yes := true
		c.Cache = &yes
	}
	if part == topology.Sidecar {
		c.Index = 0
	}
}

// place finds the topology, the own place in it and where everybody is.
func (s *Settings) place(part topology.Part, f *faults) {
	c := &s.Config
	var err error
	switch {
	case c.Topology != nil && c.TopologyFile != "":
		f.add("topologyFile", "topology is given as well; leave one of them out")
		return
	case c.Topology != nil:
		s.Topology, err = c.Topology.Topology()
	case c.TopologyFile != "":
		s.Topology, err = topology.Load(c.TopologyFile)
	default:
		f.add("topology", "missing; give it here, or the path of its file as topologyFile")
		return
	}
	if err != nil {
		f.add("topology", "%w", err)
		return
	}
	dc, ok := s.Topology.ByName(c.DataCenter)
	if !ok {
		f.add("dataCenter", "the topology has no data centre %q; give one of %s", c.DataCenter, strings.Join(names(s.Topology), ", "))
		return
	}
	s.Self = topology.Node{DC: dc, Part: part, Index: uint64(c.Index)}
	if n := count(s.Topology, dc, part); part != topology.Sidecar && (c.Index < 0 || c.Index >= n) {
		f.add("index", "%d given, but the topology has %d of %s %s; give 0 to %d, or change the topology", c.Index, n, c.DataCenter, plural(part), n-1)
	}
	s.directory = directory(s.Topology, c.Addresses, f)
}

func names(t *topology.Topology) []string {
	var all []string
	for _, dc := range t.DCs {
		all = append(all, dc.Name)
	}
	return all
}

func plural(p topology.Part) string {
	if p == topology.Middleman {
		return "middlemen (shards)"
	}
	return p.String() + "s"
}

// count returns how many nodes of a part a data centre has.
func count(t *topology.Topology, dc topology.DC, p topology.Part) int {
	n := 0
	t.Nodes(func(o topology.Node) {
		if o.DC == dc && o.Part == p {
			n++
		}
	})
	return n
}

func (s *Settings) listen(part topology.Part, f *faults) {
	l := &s.Config.Listen
	if part == topology.Sidecar {
		checkListen("listen.redis", l.Redis, f)
	} else {
		if own := s.directory[s.Self]; l.GRPC == "" && own != "" {
			_, port, _ := net.SplitHostPort(own) // it was checked
			l.GRPC = ":" + port
		}
		if l.GRPC != "" {
			checkListen("listen.grpc", l.GRPC, f)
		}
	}
	checkListen("listen.http", l.HTTP, f)
}

func checkListen(field, addr string, f *faults) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		f.add(field, "%q is not host:port; give an address such as 127.0.0.1:7400, or :7400 for all of this machine", addr)
	}
}

// words turns names into what they mean.
func (s *Settings) words(f *faults) {
	c := &s.Config
	s.Scope = node.Scope(choose("session.scope", c.Session.Scope, f, string(node.ScopePod), string(node.ScopeConnection)))
	s.Snapshot = choose("session.reads", c.Session.Reads, f, "Latest", "Snapshot") == "Snapshot"
	s.Static = choose("binding", c.Binding, f, "Dynamic", "Static") == "Static"
	choose("log.format", c.Log.Format, f, "text", "json")
	if err := s.LogLevel.UnmarshalText([]byte(c.Log.Level)); err != nil {
		f.add("log.level", "%q given; give debug, info, warn or error", c.Log.Level)
	}
}

// choose returns the one of the words that is meant; case does not matter.
func choose(field, got string, f *faults, words ...string) string {
	for _, w := range words {
		if strings.EqualFold(got, w) {
			return w
		}
	}
	f.add(field, "%q given; give %s", got, strings.Join(words, " or "))
	return ""
}

// minTokenKey is the shortest key that is worth its name, in bytes.
const minTokenKey = 16

// files reads the secrets, and checks that the TLS files are named.
func (s *Settings) files(part topology.Part, f *faults) {
	c := &s.Config
	if c.TLS != nil && (c.TLS.Cert == "" || c.TLS.Key == "" || c.TLS.CA == "") {
		f.add("tls", "give cert, key and ca; the parts authenticate each other")
	}
	if part != topology.Sidecar {
		return
	}
	if c.TokenKeyFile != "" {
		key, err := secret("tokenKeyFile", c.TokenKeyFile)
		f.note(err)
		if err == nil && len(key) < minTokenKey {
			f.add("tokenKeyFile", "%s holds %d bytes; give at least %d random ones, for example by: openssl rand -hex 32", c.TokenKeyFile, len(key), minTokenKey)
		}
		s.tokenKey = string(key)
	}
	if c.Auth != nil {
		before := len(*f)
		s.clientPassword = password("auth", c.Auth.Password, c.Auth.PasswordFile, f)
		if s.clientPassword == "" && len(*f) == before {
			f.add("auth", "no password; give password or passwordFile, or leave auth out to let every client in")
		}
	}
}

func password(field, given, file string, f *faults) string {
	switch {
	case given != "" && file != "":
		f.add(field+".passwordFile", "password is given as well; leave one of them out")
	case file != "":
		b, err := secret(field+".passwordFile", file)
		f.note(err)
		return string(b)
	}
	return given
}

func (s *Settings) coordinator(f *faults) {
	c := &s.Config
	if c.DataDir == "" {
		f.add("dataDir", "missing; give a folder on a durable volume, for the write buffer log")
	}
	if b := c.Limits.LogBytes; b != 0 && b < node.MinLogBytes {
		f.add("limits.logBytes", "%d bytes; give at least %dMi", b, node.MinLogBytes>>20)
	}
}

func (s *Settings) storage(f *faults) {
	st := &s.Config.Storage
	switch strings.ToLower(st.Engine) {
	case "embedded":
		if st.Embedded.Dir == "" {
			f.add("storage.embedded.dir", "missing; give a folder on a durable volume, one for each shard")
		}
	case "redis":
		r := &st.Redis
		if (r.Address == "") == (r.Socket == "") {
			f.add("storage.redis.address", "give either address (host:port) or socket")
		}
		if r.Address != "" {
			checkListen("storage.redis.address", r.Address, f)
		}
		if r.Database < 0 || r.WaitReplicas < 0 {
			f.add("storage.redis", "database and waitReplicas must not be negative")
		}
		if r.TLS != nil && (r.TLS.Cert == "") != (r.TLS.Key == "") {
			f.add("storage.redis.tls", "give both cert and key, or neither")
		}
		s.storagePassword = password("storage.redis", r.Password, r.PasswordFile, f)
	default:
		f.add("storage.engine", "%q given; give embedded or redis", st.Engine)
	}
	st.Engine = strings.ToLower(st.Engine)
}

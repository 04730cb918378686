package process

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// Settings are a configuration that was checked for one part, with everything that it refers to.
type Settings struct {
	Config   contract.Config // with the defaults filled in
	Topology *topology.Topology
	Self     topology.Node
	Scope    node.Scope
	Level    causal.Level
	Binding  causal.Binding
	LogLevel slog.Level

	addresses addresses
	// unusedRegister is Config.Register of a middleman whose shard has one member: only a storage that was that of a
	// group needs it. It is not checked, since the files that it names may be there for coordinators only.
	unusedRegister *contract.Register
	// Secrets are strings so that settings can be compared.
	tokenKey        string
	ignoresTokenKey bool // it is given, and tls as well
	storagePassword string
	// users are nil if every client is accepted.
	users []contract.User
}

// problems collects what is wrong with a configuration, one line each: the field, and what to do.
type problems []error

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, fmt.Errorf("  %s: "+format, append([]any{field}, args...)...))
}

func (p *problems) addError(err error) {
	if err != nil {
		*p = append(*p, fmt.Errorf("  %w", err))
	}
}

// check checks everything that the part uses.
func check(c contract.Config, part topology.Part) (*Settings, error) {
	s := &Settings{Config: c}
	s.setDefaults(part)
	var p problems
	s.locate(part, &p)
	s.checkListeners(part, &p)
	s.parseValues(&p)
	s.readSecrets(part, &p)
	switch part {
	case topology.Coordinator:
		s.checkCoordinator(&p)
		s.checkRegister(&p)
	case topology.Middleman:
		s.checkStorage(&p)
		if len(p) == 0 && !s.isReplicated() {
			s.unusedRegister, s.Config.Register = s.Config.Register, nil // so that its changes need no restart
		}
		s.checkRegister(&p)
		s.checkShardLog(&p)
	}
	return s, errors.Join(p...)
}

func (s *Settings) setDefaults(part topology.Part) {
	c := &s.Config
	setDefault(&c.Listen.Redis, fmt.Sprintf("127.0.0.1:%d", contract.DefaultRedisPort))
	setDefault(&c.Listen.HTTP, fmt.Sprintf(":%d", contract.DefaultHTTPPort))
	setDefault(&c.Session.Scope, contract.ScopePod)
	if strings.EqualFold(string(c.Session.Scope), string(contract.ScopeDataCenter)) {
		setDefault(&c.Session.Reads, causal.Snapshot.String())
	}
	setDefault(&c.Session.Reads, causal.SessionLevels()[0].String())
	setDefault(&c.Binding, causal.Bindings()[0].String())
	setDefault(&c.Log.Level, "info")
	setDefault(&c.Log.Format, contract.LogText)
	if c.Cache == nil {
		yes := true
		c.Cache = &yes
	}
	if c.NearCopies.MaxBytes == nil {
		near := c.Session.Scope.NearBytes(*c.Cache)
		c.NearCopies.MaxBytes = &near
	}
	if part == topology.Sidecar {
		c.Index = 0
	}
	if part == topology.Sidecar || part == topology.Cache {
		c.Register = nil // unused, so that its changes need no restart
	}
	if c.TLS != nil {
		tls := *c.TLS
		for _, name := range []*string{&tls.Cert, &tls.Key} {
			// members of a group share the certificate
			*name = strings.ReplaceAll(*name, "$INDEX", strconv.Itoa(c.Index))
		}
		c.TLS = &tls
		// It is no error, so that the files of an operator that is one version older can be used.
		s.ignoresTokenKey, c.TokenKeyFile = c.TokenKeyFile != "", ""
	}
}

func setDefault[S ~string](field *S, value S) {
	if *field == "" {
		*field = value
	}
}

// locate finds the topology, the place of this process in it, and the addresses of all parts.
func (s *Settings) locate(part topology.Part, p *problems) {
	c := &s.Config
	var err error
	switch {
	case c.Topology != nil && c.TopologyFile != "":
		p.add("topologyFile", "topology is given as well; leave one of them out")
		return
	case c.Topology != nil:
		s.Topology, err = c.Topology.Topology()
	case c.TopologyFile != "":
		s.Topology, err = topology.Load(c.TopologyFile)
	default:
		p.add("topology", "missing; give it here, or the path of its file as topologyFile")
		return
	}
	if err != nil {
		p.add("topology", "%w", err)
		return
	}
	dc, ok := s.Topology.ByName(c.DataCenter)
	if !ok {
		p.add("dataCenter", "the topology has no data center %q; give one of %s", c.DataCenter,
			strings.Join(dataCenterNames(s.Topology), ", "))
		return
	}
	s.Self = topology.Node{DC: dc, Part: part, Index: uint64(c.Index)}
	if n := countNodes(s.Topology, dc, part); part != topology.Sidecar && (c.Index < 0 || c.Index >= n) {
		p.add("index", "%d given, but the topology has %d of %s %s; give 0 to %d, or change the topology", c.Index, n,
			c.DataCenter,
			plural(part), n-1)
	}
	s.locateMember(p)
	s.addresses = checkAddresses(s.Topology, c.Addresses, p)
	s.checkVia(p)
}

// locateMember finds the place of this process in its group.
func (s *Settings) locateMember(p *problems) {
	c := &s.Config
	if !s.Self.HasGroup() {
		c.Member = 0
		return
	}
	if c.Member == 0 {
		c.Member = 1
	}
	n := s.Topology.DCs[s.Self.DC].Members(s.Self.Part)
	if c.Member < 1 || c.Member > n {
		p.add("member", "%d given, but a %s of %s has %d; give 1 to %d, or change %s of the topology", c.Member,
			s.Self.Part, c.DataCenter, n, n, membersField(s.Self.Part))
		return
	}
	s.Self = s.Self.WithMember(uint8(c.Member))
}

// membersField is the field of the topology with the number of members of a part.
func membersField(p topology.Part) string {
	if p == topology.Middleman {
		return "shardMembers"
	}
	return "coordinatorMembers"
}

func dataCenterNames(t *topology.Topology) []string {
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

// countNodes returns how many nodes of a part a data center has.
func countNodes(t *topology.Topology, dc topology.DC, p topology.Part) int {
	n := 0
	t.Nodes(func(o topology.Node) {
		if o.DC == dc && o.Part == p {
			n++
		}
	})
	return n
}

func (s *Settings) checkListeners(part topology.Part, p *problems) {
	l := &s.Config.Listen
	if part == topology.Sidecar {
		s.checkRedisListeners(p)
	} else {
		if own := s.addresses.of[s.Self]; l.GRPC == "" && IsLoopback(own) {
			l.GRPC = own
		} else if l.GRPC == "" && own != "" {
			_, port, _ := net.SplitHostPort(own) // checkAddresses has checked it
			l.GRPC = ":" + port
		}
		if l.GRPC != "" {
			checkAddress("listen.grpc", l.GRPC, p)
			s.checkPlaintext(p)
		}
	}
	checkAddress("listen.http", l.HTTP, p)
}

// checkRedisListeners checks where clients connect, and what TLS needs.
func (s *Settings) checkRedisListeners(p *problems) {
	l, files := &s.Config.Listen, s.Config.RedisTLS
	if l.Redis != contract.ListenNone {
		checkAddress("listen.redis", l.Redis, p)
	}
	switch {
	case l.RedisTLS != "":
		checkAddress("listen.redisTLS", l.RedisTLS, p)
		if files == nil || files.Cert == "" || files.Key == "" {
			p.add("redisTLS", "give cert and key, which listen.redisTLS needs")
		}
	case files != nil:
		p.add("listen.redisTLS",
			"missing, although redisTLS is given; give host:port for clients with TLS, such as :%d",
			contract.RedisTLSPort)
	case l.Redis == contract.ListenNone:
		p.add("listen.redis", "none, and there is no listen.redisTLS: nobody could connect; give one of them")
	}
}

// ServesThisMachineOnly reports whether no client of another machine can connect to a sidecar.
func (s *Settings) ServesThisMachineOnly() bool {
	l := &s.Config.Listen
	return (l.Redis == contract.ListenNone || IsLoopback(l.Redis)) && (l.RedisTLS == "" || IsLoopback(l.RedisTLS))
}

// checkPlaintext refuses to listen for other machines without TLS, unless that is asked for: parts believe each other.
func (s *Settings) checkPlaintext(p *problems) {
	if c := &s.Config; c.TLS == nil && !c.AllowPlaintext && !IsLoopback(c.Listen.GRPC) {
		p.add("tls",
			"missing, and listen.grpc %s can be reached from other machines: whoever reaches it could read and write "+
				"everything. Give tls; or listen on a loopback address; or, in a network that only the parts can "+
				"reach, set allowPlaintext: true (--allow-plaintext)",
			c.Listen.GRPC)
	}
}

// IsLoopback reports whether host:port can be reached from this machine only.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func checkAddress(field, addr string, p *problems) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		p.add(field,
			"%q is not host:port; give an address such as 127.0.0.1:7400, or :7400 for all addresses of this machine",
			addr)
	}
}

// parseValues turns the words of the configuration into the values that they mean.
func (s *Settings) parseValues(p *problems) {
	c := &s.Config
	s.Scope = node.Scope(parseOneOf("session.scope", c.Session.Scope, p, contract.ScopePod, contract.ScopeConnection,
		contract.ScopeDataCenter))
	s.Level = parseName("session.reads", c.Session.Reads, p, causal.SessionLevels())
	if s.Scope == node.ScopeDataCenter && s.Level != causal.Snapshot {
		p.add("session.reads", "%s given with session.scope: DataCenter; leave it out, or give Snapshot", s.Level)
	}
	s.Binding = parseName("binding", c.Binding, p, causal.Bindings())
	parseOneOf("log.format", c.Log.Format, p, contract.LogText, contract.LogJSON)
	if err := s.LogLevel.UnmarshalText([]byte(c.Log.Level)); err != nil {
		p.add("log.level", "%q given; give debug, info, warn or error", c.Log.Level)
	}
}

// parseName returns the value of which the name is given, in any case of letters.
func parseName[T fmt.Stringer](field, got string, p *problems, values []T) T {
	v, ok := causal.ParseName(got, values)
	if !ok {
		p.add(field, "%q given; give %s", got, causal.JoinNames(values))
	}
	return v
}

// parseOneOf returns the value that is given, in any case of letters.
func parseOneOf[S ~string](field string, got S, p *problems, values ...S) S {
	var words []string
	for _, v := range values {
		if strings.EqualFold(string(got), string(v)) {
			return v
		}
		words = append(words, string(v))
	}
	p.add(field, "%q given; give %s", got, strings.Join(words, " or "))
	return ""
}

// minTokenKeyBytes is the length of the shortest key for session tokens that is accepted.
const minTokenKeyBytes = 16

// readSecrets reads the secrets, and checks that the TLS files are named.
func (s *Settings) readSecrets(part topology.Part, p *problems) {
	c := &s.Config
	if c.TLS != nil && (c.TLS.Cert == "" || c.TLS.Key == "" || c.TLS.Trust == "") {
		p.add("tls",
			"give cert, key and trust; the parts authenticate each other (causalstore identity makes such files)")
	}
	if l := &c.Limits; l.Links < 0 || l.LinksPerIdentity < 0 {
		p.add("limits.links", "links and linksPerIdentity must not be negative")
	}
	if part != topology.Sidecar {
		return
	}
	checkAtMost(p, "limits.redis.keyBytes", c.Limits.Redis.KeyBytes, contract.MaxKeyBytes)
	checkAtMost(p, "limits.redis.valueBytes", c.Limits.Redis.ValueBytes, contract.MaxValueBytes)
	if b := *c.NearCopies.MaxBytes; b != 0 && b < contract.MinNearBytes {
		p.add("nearCopies.maxBytes", "%d bytes; give at least %dKi, or 0 for no near copies", b,
			contract.MinNearBytes>>10)
	}
	if *c.NearCopies.MaxBytes > 0 && !*c.Cache {
		p.add("nearCopies", "caches give near copies, and cache is false; set cache to true, or leave nearCopies out")
	}
	if c.TokenKeyFile != "" {
		key, err := readSecret("tokenKeyFile", c.TokenKeyFile)
		p.addError(err)
		if err == nil && len(key) < minTokenKeyBytes {
			p.add("tokenKeyFile",
				"%s holds %d bytes; give at least %d random ones, for example from: openssl rand -hex 32",
				c.TokenKeyFile,
				len(key), minTokenKeyBytes)
		}
		s.tokenKey = string(key)
	}
	if c.Auth != nil {
		s.users = readUsers(c.Auth.UsersFile, p)
	}
}

// checkAtMost checks a size that may only be lowered.
func checkAtMost(p *problems, field string, b, most contract.Bytes) {
	if b > most {
		p.add(field, "%d bytes; give at most %dKi: coordinators and shards take no more", b, most>>10)
	}
}

// readUsers reads a file of users. It may have none: then nobody can connect.
func readUsers(file string, p *problems) []contract.User {
	if file == "" {
		p.add("auth.usersFile", "missing; give the file of users, or leave auth out to accept every client")
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		p.addError(fmt.Errorf("auth.usersFile: %w", err))
		return nil
	}
	users, err := contract.ParseUsers(text)
	if err != nil {
		p.add("auth.usersFile", "%s: %w", file, err)
	}
	return append([]contract.User{}, users...)
}

// readPassword returns the password that is given, or the content of its file.
func readPassword(field, given, file string, p *problems) string {
	switch {
	case given != "" && file != "":
		p.add(field+".passwordFile", "password is given as well; leave one of them out")
	case file != "":
		b, err := readSecret(field+".passwordFile", file)
		p.addError(err)
		return string(b)
	}
	return given
}

// checkFolders refuses a dataDir inside the folder of an embedded storage, and the other way round: what starts over
// would take the other one with it. They may be the same folder in one file for several parts, of which each has a disk
// of its own.
func (s *Settings) checkFolders(p *problems) {
	c := &s.Config
	if c.Storage.Engine != contract.EngineEmbedded || c.DataDir == "" || c.Storage.Embedded.Dir == "" {
		return
	}
	if data, stored := filepath.Clean(c.DataDir), filepath.Clean(c.Storage.Embedded.Dir); data != stored &&
		(isInside(data, stored) || isInside(stored, data)) {
		p.add("dataDir", "%s and storage.embedded.dir, %s, are one inside the other; give folders beside each other",
			c.DataDir, c.Storage.Embedded.Dir)
	}
}

// isInside reports whether a folder is below another one. Both are clean.
func isInside(inner, outer string) bool {
	rel, err := filepath.Rel(outer, inner)
	return err == nil && filepath.IsLocal(rel)
}

func (s *Settings) checkCoordinator(p *problems) {
	s.checkFolders(p)
	c := &s.Config
	if c.DataDir == "" {
		p.add("dataDir", "missing; give a folder on a durable volume, for the write buffer log")
	}
	if b := c.Limits.LogBytes; b != 0 && b < node.MinLogBytes {
		p.add("limits.logBytes", "%d bytes; give at least %dMi", b, node.MinLogBytes>>20)
	}
}

func (s *Settings) checkStorage(p *problems) {
	if b := s.Config.Limits.ReplyBytes; b != 0 && b < contract.MinReplyBytes {
		p.add("limits.replyBytes", "%d bytes; give at least %dMi, so that there is room for the largest message", b,
			contract.MinReplyBytes>>20)
	}
	st := &s.Config.Storage
	switch contract.Engine(strings.ToLower(string(st.Engine))) {
	case contract.EngineEmbedded:
		if st.Embedded.Dir == "" {
			p.add("storage.embedded.dir", "missing; give a folder on a durable volume, one for each shard")
		}
	case contract.EngineRedis:
		r := &st.Redis
		if (r.Address == "") == (r.Socket == "") {
			p.add("storage.redis.address", "give either address (host:port) or socket")
		}
		if r.Address != "" {
			checkAddress("storage.redis.address", r.Address, p)
		}
		if r.Database < 0 || r.WaitReplicas < 0 {
			p.add("storage.redis", "database and waitReplicas must not be negative")
		}
		if r.TLS != nil && (r.TLS.Cert == "") != (r.TLS.Key == "") {
			p.add("storage.redis.tls", "give both cert and key, or neither")
		}
		s.storagePassword = readPassword("storage.redis", r.Password, r.PasswordFile, p)
	default:
		p.add("storage.engine", "%q given; give embedded or redis", st.Engine)
	}
	st.Engine = contract.Engine(strings.ToLower(string(st.Engine)))
	s.checkFolders(p)
}

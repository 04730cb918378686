package resp

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
)

// TIME
func timeNow(c *connection, _ [][]byte) error {
	now := c.server.options.Clock()
	c.out.writeArrayHeader(2)
	c.out.writeBulkString(fmt.Sprint(now.Unix()))
	c.out.writeBulkString(fmt.Sprint(now.Nanosecond() / 1000))
	return nil
}

// ROLE: balancers take the server for one that accepts writes. The offset of a replication log has no meaning here.
func role(c *connection, _ [][]byte) error {
	c.out.writeReply(Array{"master", 0, Array{}})
	return nil
}

// MODULE LIST
func moduleList(c *connection, _ [][]byte) error {
	c.out.writeArrayHeader(0)
	return nil
}

// DBSIZE
func dbSize(c *connection, _ [][]byte) error {
	n, err := c.session.DBSize(c.server.context)
	if err != nil {
		return err
	}
	c.out.writeInteger(n)
	return nil
}

// INFO [section ...]
func info(c *connection, args [][]byte) error {
	all := len(args) == 1
	wanted := make(map[string]bool)
	for _, arg := range args[1:] {
		switch name := strings.ToLower(string(arg)); name {
		case "all", "default", "everything":
			all = true
		default:
			wanted[name] = true
		}
	}
	var text strings.Builder
	for _, section := range c.sections(func(name string) bool { return all || wanted[name] }) {
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		text.WriteString(section)
	}
	c.out.writeVerbatim(text.String())
	return nil
}

// sections returns the sections of INFO whose lower-case name is wanted.
func (c *connection) sections(wanted func(name string) bool) []string {
	var made []string
	for _, s := range []struct {
		name string
		make func() string
	}{
		{"server", c.serverSection}, {"clients", c.clientsSection}, {"stats", c.statsSection},
		{"replication", func() string { return "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n" }},
		{"keyspace", c.keyspaceSection},
	} {
		if wanted(s.name) {
			made = append(made, s.make())
		}
	}
	for _, section := range c.sessionSections() {
		title, _, _ := strings.Cut(strings.TrimPrefix(section, "# "), "\r\n")
		if wanted(strings.ToLower(title)) {
			made = append(made, section)
		}
	}
	return made
}

// sessionSections returns the sections of the session. If the session cannot be created, there are none: INFO must work
// while the store is unavailable.
func (c *connection) sessionSections() []string {
	if c.ensureSession() != nil {
		return nil
	}
	var sections []string
	for line := range strings.SplitAfterSeq(c.session.Info(), "\r\n") {
		switch {
		case strings.HasPrefix(line, "# "):
			sections = append(sections, line)
		case len(sections) > 0 && strings.TrimSpace(line) != "":
			sections[len(sections)-1] += line
		}
	}
	return sections
}

func (c *connection) serverSection() string {
	uptime := int64(c.server.options.Clock().Sub(c.server.started).Seconds())
	port := 0
	if addr, ok := c.socket.LocalAddr().(*net.TCPAddr); ok {
		port = addr.Port
	}
	return fmt.Sprintf("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nos:%s %s\r\narch_bits:%d\r\nprocess_id:%d\r\n"+
		"tcp_port:%d\r\nserver_time_usec:%d\r\nuptime_in_seconds:%d\r\nuptime_in_days:%d\r\n",
		redisVersion, runtime.GOOS, runtime.GOARCH, 32<<(^uint(0)>>63), os.Getpid(), port,
		c.server.options.Clock().UnixMicro(), uptime, uptime/86400)
}

func (c *connection) clientsSection() string {
	return fmt.Sprintf("# Clients\r\nconnected_clients:%d\r\nmaxclients:%d\r\n",
		c.server.Connections(), c.server.options.Limits.MaxClients)
}

func (c *connection) statsSection() string {
	c.flushCounters()
	s := &c.server.stats
	return fmt.Sprintf("# Stats\r\ntotal_connections_received:%d\r\ntotal_commands_processed:%d\r\nrejected_connections:%d\r\n"+
		"evicted_clients:%d\r\ntotal_error_replies:%d\r\nprotocol_errors:%d\r\npanics:%d\r\n",
		s.accepted.Load(), s.commands.Load(), s.refused.Load(), s.evicted.Load(), s.failures.Load()+s.protocolErrors.Load(),
		s.protocolErrors.Load(), s.panics.Load())
}

// keyspaceSection omits the line of the database if its size is unknown.
func (c *connection) keyspaceSection() string {
	const title = "# Keyspace\r\n"
	if c.ensureSession() != nil {
		return title
	}
	n, err := c.session.DBSize(c.server.context)
	if err != nil || n == 0 {
		return title
	}
	return title + fmt.Sprintf("db0:keys=%d,expires=0,avg_ttl=0\r\n", n)
}

package resp

import (
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
)

// INFO [section ...]: what monitoring tools and libraries read. Without arguments, all but the statistics of each
// command.
func info(c *connection, args [][]byte) error {
	usual, all := len(args) == 1, false
	wanted := make(map[string]bool)
	for _, arg := range args[1:] {
		switch name := strings.ToLower(string(arg)); name {
		case "default":
			usual = true
		case "all", "everything":
			all = true
		default:
			wanted[name] = true
		}
	}
	var text strings.Builder
	for _, section := range c.sections(func(name string) bool {
		return all || usual && name != "commandstats" || wanted[name]
	}) {
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
		{"server", c.serverSection}, {"clients", c.clientsSection}, {"memory", c.memorySection},
		{"persistence", c.persistenceSection},
		{"stats", c.statsSection}, {"replication", c.replicationSection}, {"cpu", cpuSection},
		{"modules", func() string { return "# Modules\r\n" }},
		{"commandstats", c.commandsSection}, {"cluster", func() string {
			return "# Cluster\r\ncluster_enabled:0\r\n"
		}}, {"keyspace", c.keyspaceSection},
		{"causalstore", c.placeSection},
	} {
		if !wanted(s.name) {
			continue
		}
		if text := s.make(); text != "" {
			made = append(made, text)
		}
	}
	return made
}

// placeSection is about the place of the session. If the session cannot be created, there is none: INFO must work while
// the store is unavailable.
func (c *connection) placeSection() string {
	if c.ensureSession() != nil {
		return ""
	}
	at := c.session.Place()
	return section("CausalStore", "data_center", at.DataCenter, "ring", at.Ring, "session_scope", at.Scope,
		"topology_epoch", at.TopologyEpoch)
}

// keyspaceSection has a line for each database with keys, and none if they cannot be counted: INFO must work while the
// store is unavailable.
func (c *connection) keyspaceSection() string {
	if c.ensureSession() != nil {
		return section("Keyspace")
	}
	n, err := c.countKeys()
	if err != nil {
		return section("Keyspace")
	}
	var lines []any
	for database := range databases {
		if keys := math.Round(n.keys[database]); keys > 0 {
			lines = append(lines, fmt.Sprint("db", database),
				fmt.Sprintf("keys=%.0f,expires=%.0f,avg_ttl=%.0f", keys, n.expires[database],
					n.ttlMs[database]/max(n.expires[database], 1)))
		}
	}
	return section("Keyspace", lines...)
}

func (c *connection) serverSection() string {
	s := c.server
	uptime := int64(s.options.Clock().Sub(s.started).Seconds())
	port := 0
	if addr, ok := c.socket.LocalAddr().(*net.TCPAddr); ok {
		port = addr.Port
	}
	return section("Server", "redis_version", redisVersion, "redis_git_sha1", "00000000", "redis_git_dirty", 0,
		"redis_build_id", 0,
		"redis_mode", "standalone", "os", runtime.GOOS+" "+runtime.GOARCH, "arch_bits", 32<<(^uint(0)>>63),
		"process_id", os.Getpid(),
		"run_id", fmt.Sprintf("%040x", s.started.UnixNano()), "tcp_port", port, "server_time_usec",
		s.options.Clock().UnixMicro(),
		"uptime_in_seconds", uptime, "uptime_in_days", uptime/86400, "hz", 10, "configured_hz", 10, "executable", "",
		"config_file", "")
}

func (c *connection) clientsSection() string {
	return section("Clients", "connected_clients", c.server.Connections(), "cluster_connections", 0, "maxclients",
		c.server.options.Limits.MaxClients,
		"blocked_clients", c.server.stats.blocked.Load(), "tracking_clients", 0)
}

// memorySection is about the process. Nothing is evicted: the data are in the shards.
func (c *connection) memorySection() string {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	used := int64(sample[0].Value.Uint64())
	resident := int64(sample[1].Value.Uint64() - sample[2].Value.Uint64())
	peak := &c.server.stats.peakBytes
	for was := peak.Load(); used > was && !peak.CompareAndSwap(was, used); was = peak.Load() {
	}
	return section("Memory", "used_memory", used, "used_memory_human", humanBytes(used), "used_memory_rss", resident,
		"used_memory_rss_human", humanBytes(resident),
		"used_memory_peak", peak.Load(), "used_memory_peak_human", humanBytes(peak.Load()), "used_memory_dataset", 0,
		"used_memory_lua", 0,
		"maxmemory", 0, "maxmemory_human", "0B", "maxmemory_policy", "noeviction",
		"mem_fragmentation_ratio", fmt.Sprintf("%.2f", float64(resident)/float64(max(used, 1))), "mem_clients_normal",
		c.server.ClientBytes(), "mem_allocator", "go")
}

// humanBytes writes a number of bytes as Redis does.
func humanBytes(n int64) string {
	units := []struct {
		suffix string
		bytes  float64
	}{{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}}
	for _, u := range units {
		if float64(n) >= u.bytes {
			return fmt.Sprintf("%.2f%s", float64(n)/u.bytes, u.suffix)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// persistenceSection says what the parameters of CONFIG GET say: writes are durable when they are answered.
func (c *connection) persistenceSection() string {
	return section("Persistence", "loading", 0, "async_loading", 0, "rdb_changes_since_last_save", 0,
		"rdb_bgsave_in_progress", 0,
		"rdb_last_save_time", c.server.started.Unix(), "rdb_last_bgsave_status", "ok", "rdb_last_bgsave_time_sec", -1,
		"rdb_current_bgsave_time_sec", -1,
		"aof_enabled", 1, "aof_rewrite_in_progress", 0, "aof_rewrite_scheduled", 0, "aof_last_rewrite_time_sec", -1,
		"aof_current_rewrite_time_sec", -1,
		"aof_last_bgrewrite_status", "ok", "aof_last_write_status", "ok")
}

func (c *connection) statsSection() string {
	c.flushCounters()
	s, n := &c.server.stats, c.server.Counts()
	return section("Stats", "total_connections_received", n.Accepted, "total_commands_processed", s.commands.Load(),
		"instantaneous_ops_per_sec", s.rate.now(c.server.options.Clock(), s.commands.Load()), "total_net_input_bytes",
		s.received.Load(), "total_net_output_bytes", s.sent.Load(),
		"rejected_connections", n.Refused, "sync_full", 0, "sync_partial_ok", 0, "sync_partial_err", 0, "expired_keys",
		0, "evicted_keys", 0,
		"evicted_clients", n.Evicted, "keyspace_hits", s.hits.Load(), "keyspace_misses", s.misses.Load(),
		"pubsub_channels", 0, "pubsub_patterns", 0,
		"latest_fork_usec", 0, "total_error_replies", s.failures.Load()+s.protocolErrors.Load(), "protocol_errors",
		s.protocolErrors.Load(), "panics", s.panics.Load())
}

// replicationSection: clients take each sidecar for a server that accepts writes and has no replicas.
func (c *connection) replicationSection() string {
	return section("Replication", "role", "master", "connected_slaves", 0, "master_failover_state", "no-failover",
		"master_replid", strings.Repeat("0", 40),
		"master_repl_offset", 0, "second_repl_offset", -1, "repl_backlog_active", 0, "repl_backlog_size", 0,
		"repl_backlog_first_byte_offset", 0, "repl_backlog_histlen", 0)
}

func cpuSection() string {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return section("CPU")
	}
	seconds := func(t syscall.Timeval) string { return fmt.Sprintf("%d.%06d", t.Sec, t.Usec) }
	return section("CPU", "used_cpu_sys", seconds(u.Stime), "used_cpu_user", seconds(u.Utime))
}

// commandsSection has a line for each command that was sent. Writes of pipelines take the time until they are issued.
func (c *connection) commandsSection() string {
	var lines []any
	for _, cmd := range sortedCommands() {
		for _, each := range append([]*command{cmd}, cmd.subs...) {
			n := &c.server.stats.byCommand[each.index]
			calls, usec := n.calls.Load(), float64(n.took.Load())/1000
			if calls+n.rejected.Load() > 0 {
				lines = append(lines, "cmdstat_"+each.name,
					fmt.Sprintf("calls=%d,usec=%.0f,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
						calls, usec, usec/float64(max(calls, 1)), n.rejected.Load(), n.failed.Load()))
			}
		}
	}
	return section("Commandstats", lines...)
}

// section formats a section of alternating fields and values.
func section(title string, fields ...any) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\r\n", title)
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&text, "%v:%v\r\n", fields[i], fields[i+1])
	}
	return text.String()
}

package resp

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// infoFields returns the fields of INFO.
func (p *peer) infoFields(sections ...string) map[string]string {
	fields := map[string]string{}
	for line := range strings.SplitSeq(p.do(append([]string{"INFO"}, sections...)...), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// These fields are read by exporters, admin tools, job queues and test suites.
func TestInfoHasTheFieldsThatToolsRead(t *testing.T) {
	theirs := dial(t, redis(t))
	_, address := serve(t, Options{Backend: newMemory()})
	ours := dial(t, address)
	theirFields, ourFields := theirs.infoFields("everything"), ours.infoFields()
	number, size := regexp.MustCompile(`^-?[0-9.]+$`), regexp.MustCompile(`^[0-9.]+[BKMG]$`)
	for name := range strings.FieldsSeq(
		`redis_version redis_mode os arch_bits process_id run_id tcp_port uptime_in_seconds uptime_in_days hz executable config_file
		connected_clients maxclients blocked_clients used_memory used_memory_human used_memory_rss used_memory_peak used_memory_peak_human used_memory_lua maxmemory
		maxmemory_human maxmemory_policy mem_fragmentation_ratio mem_allocator loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time
		rdb_last_bgsave_status aof_enabled aof_rewrite_in_progress aof_last_write_status total_connections_received total_commands_processed
		instantaneous_ops_per_sec total_net_input_bytes total_net_output_bytes rejected_connections expired_keys evicted_keys keyspace_hits keyspace_misses
		pubsub_channels latest_fork_usec total_error_replies role connected_slaves master_replid master_repl_offset used_cpu_sys used_cpu_user cluster_enabled`) {
		a, b := theirFields[name], ourFields[name]
		if _, ok := ourFields[name]; !ok {
			t.Errorf("%s is not there; in Redis it is %q", name, a)
		}
		if number.MatchString(a) != number.MatchString(b) &&
			!strings.Contains("run_id master_replid mem_fragmentation_ratio", name) ||
			size.MatchString(a) != size.MatchString(b) {
			t.Errorf("%s: %q, in Redis %q", name, b, a)
		}
	}
	for name := range ourFields {
		ours := strings.Fields("protocol_errors panics data_center ring session_scope topology_epoch")
		if _, ok := theirFields[name]; !ok && !slices.Contains(ours, name) {
			t.Errorf("Redis has no field %s", name)
		}
	}
	if ourFields["maxmemory_policy"] != "noeviction" || ourFields["cluster_enabled"] != "0" ||
		len(ourFields["run_id"]) != 40 {
		t.Errorf("%v", ourFields)
	}
}

func TestInfoCountsCommandsReadsAndBytes(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	p.do("SET", "k", strings.Repeat("v", 1000))
	for _, args := range lines(
		"GET k\nGET missing\nMGET k k missing\nEXISTS missing k\nGET\nINCR k\nCLIENT GETNAME\nCLIENT GETNAME x") {
		p.do(args...)
	}
	fields := p.infoFields("stats", "commandstats")
	for name, want := range map[string]string{
		"keyspace_hits": "4", "keyspace_misses": "3", "cmdstat_get": "calls=2,", "cmdstat_mget": "calls=1,",
		"cmdstat_incr": "calls=1,", "cmdstat_client|getname": "calls=1,",
	} {
		if !strings.HasPrefix(fields[name], want) {
			t.Errorf("%s is %q, want %s", name, fields[name], want)
		}
	}
	for name, want := range map[string]string{"cmdstat_get": ",rejected_calls=1,failed_calls=0",
		"cmdstat_incr":           ",rejected_calls=0,failed_calls=1",
		"cmdstat_client|getname": ",rejected_calls=1,failed_calls=0"} {
		if !strings.HasSuffix(fields[name], want) {
			t.Errorf("%s is %q, want %s", name, fields[name], want)
		}
	}
	if len(fields["total_net_input_bytes"]) < 4 || len(fields["total_net_output_bytes"]) < 4 {
		t.Errorf("bytes: %q, %q", fields["total_net_input_bytes"], fields["total_net_output_bytes"])
	}
	if _, ok := p.infoFields()["cmdstat_get"]; ok {
		t.Error("the statistics of commands are in the default sections")
	}
}

func TestClientListShowsAllConnections(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	first, second, third := dial(t, address), dial(t, address), dial(t, address)
	first.do("CLIENT", "SETNAME", "one")
	second.do("SELECT", "3")
	second.do("MULTI")
	second.do("SET", "a", "b")
	third.do("PING")
	listed := func(p *peer, options ...string) string {
		return p.do(append([]string{"CLIENT", "LIST"}, options...)...)
	}
	// A connection shows its state once it waits for its client, which may have its reply by then.
	wants := []string{`id=1 [^\n]* name=one .* cmd=client\|list `, `id=2 [^\n]* db=3 .* multi=1 [^\n]* cmd=multi `,
		`id=3 [^\n]* cmd=ping `}
	for _, want := range wants {
		waitFor(t, "CLIENT LIST has "+want, func() bool { return regexp.MustCompile(want).MatchString(listed(first)) })
	}
	if got := listed(first); strings.Count(got, "addr=") != 6 || !strings.Contains(got, " idle=0 ") {
		t.Errorf("%q", got)
	}
	if got := listed(third, "ID", "2", "99"); strings.Contains(got, "id=1 ") || !strings.Contains(got, "id=2 ") ||
		strings.Contains(got, "id=3 ") {
		t.Errorf("two of them: %q", got)
	}
	if got := listed(third, "TYPE", "normal"); strings.Count(got, "addr=") != 6 { // with laddr
		t.Errorf("TYPE normal: %q", got)
	}
	if got := listed(third, "TYPE", "pubsub"); got != "$0\r\n\r\n" {
		t.Errorf("TYPE pubsub: %q", got)
	}
}

package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// minVersion is the oldest supported version of the server.
var minVersion = [2]int{6, 2}

// settingNames are the settings that decide whether the server keeps what it acknowledged.
var settingNames = []string{"appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory", "maxmemory-policy",
	"proto-max-bulk-len"}

// minBulk is more than the longest key or value in its envelope. A server that refused one would block the shard: the
// write is acknowledged, and repeated until it is stored.
const minBulk = 32 << 20

// server is what a server reports about itself.
type server struct {
	runID    string
	info     map[string]string
	settings map[string]string
	// settingsErr is the reason why the settings cannot be read, if there is one.
	settingsErr error
}

// inspect asks the server at the other end of c about itself.
func inspect(ctx context.Context, c goredis.Cmdable) (server, error) {
	s := server{info: make(map[string]string), settings: make(map[string]string)}
	var infos []*goredis.StringCmd
	var configs []*goredis.MapStringStringCmd
	// Errors are handled one by one: a user may be allowed some of these commands and not others.
	sent, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for _, section := range []string{"server", "replication", "persistence"} {
			infos = append(infos, p.Info(ctx, section))
		}
		for _, name := range settingNames {
			configs = append(configs, p.ConfigGet(ctx, name))
		}
		return nil
	})
	if err := pipelineError(sent, err); err != nil {
		return s, err
	}
	for _, info := range infos {
		if err := info.Err(); err != nil {
			return s, fmt.Errorf("INFO was refused (allow it with ACL +info): %w", err)
		}
		parseInfo(info.Val(), s.info)
	}
	s.runID = s.info["run_id"]
	for i, config := range configs {
		if err := config.Err(); err != nil {
			s.settingsErr = err
			break
		}
		s.settings[settingNames[i]] = config.Val()[settingNames[i]]
	}
	return s, nil
}

// pipelineError returns the error of a pipeline as a whole, such as a broken or refused connection, and nil if only
// some of its commands failed: these have their own errors.
func pipelineError(commands []goredis.Cmder, err error) error {
	var fromServer goredis.Error
	if err == nil || !errors.As(err, &fromServer) {
		return err
	}
	for _, cmd := range commands {
		if cmd.Err() != nil {
			return nil
		}
	}
	return err
}

func parseInfo(text string, into map[string]string) {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			into[name] = value
		}
	}
}

// checkUsable returns the reason why the server cannot be used, whatever the options allow.
func (s server) checkUsable() error {
	version := s.info["redis_version"]
	switch {
	case s.runID == "":
		return errors.New("its INFO has no run_id, so restarts could not be detected; use a stock Redis")
	case !versionAtLeast(version, minVersion):
		return fmt.Errorf("it is version %q; at least %d.%d is required", version, minVersion[0], minVersion[1])
	case s.info["redis_mode"] == "cluster":
		return errors.New(
			"it runs in cluster mode, and CausalStore does its own sharding: start it with cluster-enabled no")
	case s.info["role"] != "master":
		return fmt.Errorf("it is a replica (role %q); give the address of the primary", s.info["role"])
	case s.info["loading"] != "0":
		return errors.New("it is still loading its data; try again later")
	}
	return nil
}

func versionAtLeast(version string, least [2]int) bool {
	majorText, rest, _ := strings.Cut(version, ".")
	minorText, _, _ := strings.Cut(rest, ".")
	major, err1 := strconv.Atoi(majorText)
	minor, err2 := strconv.Atoi(minorText)
	return err1 == nil && err2 == nil && (major > least[0] || major == least[0] && minor >= least[1])
}

// unsafeSettings returns one line for each setting that allows the server to lose or evict what it acknowledged, with
// the remedy (PROTOCOL LOSS: the store must not lose what it acknowledged).
func (s server) unsafeSettings() []string {
	if s.settingsErr != nil {
		return []string{
			fmt.Sprintf(
				"its settings cannot be checked, because CONFIG GET was refused (%v): allow it with ACL SETUSER "+
					"<user> +config|get, or, if the provider forbids that, check by hand that appendonly is yes, "+
					"appendfsync always and maxmemory-policy noeviction", s.settingsErr)}
	}
	var unsafe []string
	want := func(name, value, because string) {
		if got := s.settings[name]; got != value {
			unsafe = append(unsafe, fmt.Sprintf("%s is %q, so %s: CONFIG SET %s %s, and the same in redis.conf", name,
				got, because, name, value))
		}
	}
	want("appendonly", "yes", "a restart loses acknowledged writes")
	want("appendfsync", "always", "a crash of the machine loses acknowledged writes")
	want("no-appendfsync-on-rewrite", "no", "a crash while the log is rewritten loses acknowledged writes")
	if s.settings["maxmemory"] != "0" {
		want("maxmemory-policy", "noeviction", "keys are evicted when memory is full")
	}
	if n, err := strconv.ParseInt(s.settings["proto-max-bulk-len"], 10, 64); err == nil && n < minBulk {
		unsafe = append(unsafe,
			fmt.Sprintf("proto-max-bulk-len is %d, so long values could not be stored, and nothing behind them: "+
				"CONFIG SET proto-max-bulk-len 512mb, and the same in redis.conf", n))
	}
	return unsafe
}

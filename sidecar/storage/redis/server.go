package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// minVersion is the oldest server that is known to be good.
var minVersion = [2]int{6, 2}

// settingNames are those that decide whether the server keeps what it acknowledged.
var settingNames = []string{"appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory", "maxmemory-policy"}

// server is what a server says of itself.
type server struct {
	runID    string
	info     map[string]string
	settings map[string]string
	// hidden is why the settings cannot be read.
	hidden error
}

// gather asks the server at the other end of c.
func gather(ctx context.Context, c goredis.Cmdable) (server, error) {
	s := server{info: make(map[string]string), settings: make(map[string]string)}
	var infos []*goredis.StringCmd
	var configs []*goredis.MapStringStringCmd
	// Errors are looked at one by one: a user may be allowed some of these and not others.
	sent, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for _, section := range []string{"server", "replication", "persistence"} {
			infos = append(infos, p.Info(ctx, section))
		}
		for _, name := range settingNames {
			configs = append(configs, p.ConfigGet(ctx, name))
		}
		return nil
	})
	if err := notSent(sent, err); err != nil {
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
			s.hidden = err
			break
		}
		s.settings[settingNames[i]] = config.Val()[settingNames[i]]
	}
	return s, nil
}

// notSent returns the error of a pipeline that did not get as far as its commands: each of those has an error of its own then,
// unless it was the server that refused the connection.
func notSent(commands []goredis.Cmder, err error) error {
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

// unusable says why the server cannot be used whatever is allowed.
func (s server) unusable() error {
	version := s.info["redis_version"]
	switch {
	case s.runID == "":
		return errors.New("it does not tell its run_id in INFO, so a restart could not be noticed; use a stock Redis")
	case !versionAtLeast(version, minVersion):
		return fmt.Errorf("it is version %q; at least %d.%d is needed", version, minVersion[0], minVersion[1])
	case s.info["redis_mode"] == "cluster":
		return errors.New("it runs in cluster mode; CausalStore shards by itself: start it with cluster-enabled no")
	case s.info["role"] != "master":
		return fmt.Errorf("it is a replica (role %q); give the address of the primary", s.info["role"])
	case s.info["loading"] != "0":
		return errors.New("it is loading its data; try again once it has")
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

// dangers returns one line for each setting that lets the server lose or evict what it acknowledged (PROTOCOL §5: the store
// below must not lose what it acknowledged), with the remedy.
func (s server) dangers() []string {
	if s.hidden != nil {
		return []string{fmt.Sprintf("its settings cannot be checked, because CONFIG GET was refused (%v): allow it with ACL SETUSER <user> +config|get, "+
			"or, where the provider forbids it, check by hand that appendonly is yes, appendfsync always and maxmemory-policy noeviction", s.hidden)}
	}
	var dangers []string
	want := func(name, value, because string) {
		if got := s.settings[name]; got != value {
			dangers = append(dangers, fmt.Sprintf("%s is %q, so %s: CONFIG SET %s %s, and the same in redis.conf", name, got, because, name, value))
		}
	}
	want("appendonly", "yes", "a restart loses acknowledged writes")
	want("appendfsync", "always", "a crash of the machine loses acknowledged writes")
	want("no-appendfsync-on-rewrite", "no", "a crash while the log is rewritten loses acknowledged writes")
	if s.settings["maxmemory"] != "0" {
		want("maxmemory-policy", "noeviction", "full memory throws keys away")
	}
	return dangers
}

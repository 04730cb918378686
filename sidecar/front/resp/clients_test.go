package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

func TestGoRedisWorksUnmodified(t *testing.T) {
	for _, proto := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
			_, address := serve(t, Options{Backend: newMemory(), Users: withPassword("default", "secret")})
			c := goredis.NewClient(&goredis.Options{Addr: address, Password: "secret", Protocol: proto,
				ClientName: "worker"})
			defer c.Close()
			ctx := t.Context()
			must := func(got any, err error, want any) {
				t.Helper()
				if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %v, %v; want %v", got, err, want)
				}
			}
			get := func(cmd interface{ Result() (string, error) }, want string) {
				t.Helper()
				got, err := cmd.Result()
				must(got, err, want)
			}
			get(c.Ping(ctx), "PONG")
			get(c.Set(ctx, "k", "v", time.Hour), "OK")
			get(c.Get(ctx, "k"), "v")
			if _, err := c.Get(ctx, "missing").Result(); !errors.Is(err, goredis.Nil) {
				t.Errorf("GET of a missing key: %v", err)
			}
			left, err := c.TTL(ctx, "k").Result()
			must(left, err, time.Hour)
			stored, err := c.SetNX(ctx, "k", "w", 0).Result()
			must(stored, err, false)
			n, err := c.IncrBy(ctx, "n", 41).Result()
			must(n, err, 41)
			f, err := c.IncrByFloat(ctx, "n", 0.5).Result()
			must(f, err, 41.5)
			values, err := c.MGet(ctx, "k", "missing", "n").Result()
			must(values, err, []any{"v", nil, "41.5"})
			deleted, err := c.Del(ctx, "k", "missing").Result()
			must(deleted, err, 1)
			name, err := c.ClientGetName(ctx).Result()
			must(name, err, "worker")
			settings, err := c.ConfigGet(ctx, "save").Result()
			must(settings, err, map[string]string{"save": ""})
			infos, err := c.Command(ctx).Result()
			must(infos["mset"].StepCount, err, 2)
			reply, err := c.Do(ctx, "CAUSAL", "TOKEN").Result()
			must(reply, err, "a token")

			cmds, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
				for i := range 1000 {
					p.Set(ctx, fmt.Sprint("key", i), i, 0)
				}
				for i := range 1000 {
					p.Get(ctx, fmt.Sprint("key", i))
				}
				return nil
			})
			must(len(cmds), err, 2000)
			for i, cmd := range cmds[1000:] {
				get(cmd.(*goredis.StringCmd), fmt.Sprint(i))
			}
		})
	}
}

func TestRedisCLIWorksUnmodified(t *testing.T) {
	program, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed; apt-get install redis-tools")
	}
	_, address := serve(t, Options{Backend: newMemory()})
	_, port, _ := net.SplitHostPort(address)
	for _, proto := range []string{"-2", "-3"} {
		for _, c := range []struct {
			want string
			args []string
		}{
			{"OK", []string{"SET", "k", "v"}}, {"\"v\"", []string{"GET", "k"}}, {"(nil)", []string{"GET", "missing"}},
			{"(integer) 1", []string{"EXISTS", "k"}},
			{"(error) ERR PUBLISH is not supported", []string{"PUBLISH", "c", "m"}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			out, err := exec.CommandContext(ctx, program,
				append([]string{"--no-raw", proto, "-p", port}, c.args...)...).Output()
			cancel()
			if err != nil || !strings.HasPrefix(string(out), c.want) {
				t.Errorf("%s %q: %q, %v; want %q", proto, c.args, out, err, c.want)
			}
		}
	}
}

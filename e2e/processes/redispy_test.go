package processes_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
)

// pythonScript uses a sidecar over TLS, at its address, with an authority that has signed its certificate and one that
// has not.
const pythonScript = `
import sys, redis
addr, plain, ca, other = sys.argv[1:]
for protocol in 2, 3:
    c = redis.from_url(f"rediss://app:secret@{addr}/0", ssl_ca_certs=ca, decode_responses=True, protocol=protocol)
    assert c.ping() and c.set("py:a", "1", ex=3600) and c.incrby("py:a", 41) == 42
    with c.pipeline(transaction=False) as p:
        for i in range(2000):
            p.set(f"py:{i}", "x" * 100)
        assert p.execute() == [True] * 2000
    with c.pipeline() as p:
        p.incr("py:a").get("py:a")
        assert p.execute() == [43, "43"]
    big = "y" * (1 << 20)  # many records of TLS
    assert c.set("py:big", big) and c.get("py:big") == big
    assert c.mget("py:0", "py:none") == ["x" * 100, None]
    assert redis.from_url(f"redis://app:secret@{plain}/0", decode_responses=True).get("py:a") == "43"
    pool = redis.BlockingConnectionPool.from_url(f"rediss://app:secret@{addr}/0", ssl_ca_certs=ca, max_connections=20)
    assert [redis.Redis(connection_pool=pool).get("py:a") for _ in range(100)] == [b"43"] * 100
    pool.disconnect()
    c.delete("py:a")

def refused(url, what, **options):
    try:
        redis.from_url(url, **options).ping()
    except redis.RedisError as e:
        assert what in str(e), e
        return
    raise SystemExit(f"{url} with {options} was answered")
refused(f"rediss://app:secret@{addr}", "CERTIFICATE_VERIFY_FAILED", ssl_ca_certs=other)
refused(f"rediss://app:secret@{addr}", "CERTIFICATE_VERIFY_FAILED")
refused(f"rediss://app:wrong@{addr}", "username-password", ssl_ca_certs=ca)
refused(f"rediss://{addr}", "Authentication required", ssl_ca_certs=ca)
refused(f"redis://app:secret@{addr}", "this port is for TLS")
print("ok")
`

// TestRedisPyWorksOverTLS uses redis-py as it is; CAUSALSTORE_PYTHON names a Python that has it.
func TestRedisPyWorksOverTLS(t *testing.T) {
	python, err := exec.LookPath(cmp.Or(os.Getenv("CAUSALSTORE_PYTHON"), "python3"))
	if err != nil {
		t.Skip("no python3 in PATH: apt-get install python3 python3-redis")
	}
	if err := exec.CommandContext(t.Context(), python, "-c", "import redis, ssl").Run(); err != nil {
		t.Skipf(
			"%s has no redis-py; apt-get install python3-redis, or pip install redis and CAUSALSTORE_PYTHON=<that "+
				"python>", python)
	}
	d := deploy(t, func(c *contract.Config) {
		c.Auth = &contract.Auth{UsersFile: usersFile(t, "user app on >secret ~* &* +@all")}
	})
	f, other := redisTLS{t.TempDir()}, redisTLS{t.TempDir()}
	f.renew(t)
	other.renew(t)
	addr := d.serveTLS(f)
	d.awaitReady(d.procs["a-sidecar"])
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-", addr, d.procs["a-sidecar"].redis, f.path("ca.crt"),
		other.path("ca.crt"))
	cmd.Stdin = strings.NewReader(pythonScript)
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Errorf("%v\n%s", err, out)
	}
}

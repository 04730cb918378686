package processes_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/ports"
)

// usersFile writes a file of users.
func usersFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users.acl")
	replaceFile(t, path, []byte(strings.Join(lines, "\n")))
	return path
}

// replaceFile replaces a file at once.
func replaceFile(t *testing.T, path string, b []byte) {
	t.Helper()
	must(t, os.WriteFile(path+".new", b, 0o600))
	must(t, os.Rename(path+".new", path))
}

// redisTLS is the certificate of a sidecar for its clients, in files.
type redisTLS struct{ dir string }

func (f redisTLS) path(name string) string { return filepath.Join(f.dir, name) }

// renew makes an authority and a certificate of it for 127.0.0.1.
func (f redisTLS) renew(t *testing.T) {
	t.Helper()
	sign := func(c, by *x509.Certificate, key, with *ecdsa.PrivateKey) []byte {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, with)
		must(t, err)
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	serial := big.NewInt(time.Now().UnixNano())
	ca := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "clients"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: serial.Add(serial, big.NewInt(1)),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	replaceFile(t, f.path("ca.crt"), sign(ca, ca, caKey, caKey))
	replaceFile(t, f.path("tls.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
	replaceFile(t, f.path("tls.crt"), sign(leaf, ca, key, caKey))
}

// client returns a client that trusts the present authority.
func (f redisTLS) client(t *testing.T, addr, user, password string) *goredis.Client {
	t.Helper()
	o, err := goredis.ParseURL(fmt.Sprintf("rediss://%s:%s@%s", user, password, addr))
	must(t, err)
	b, err := os.ReadFile(f.path("ca.crt"))
	must(t, err)
	o.TLSConfig = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
	o.TLSConfig.RootCAs.AppendCertsFromPEM(b)
	o.PoolSize, o.MaxRetries, o.ReadTimeout = 1, -1, 15*time.Second
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c := goredis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

func (d *deployment) logOf(name string) string {
	b, err := os.ReadFile(d.procs[name].log)
	must(d.t, err)
	return string(b)
}

// serveTLS restarts the sidecar of data center a with a second port, for clients with TLS, and returns its address.
func (d *deployment) serveTLS(f redisTLS) string {
	d.t.Helper()
	d.stop("a-sidecar")
	p, addr := d.procs["a-sidecar"], ports.ForTest(d.t)
	p.args = append(p.args, "--listen-redis-tls", addr, "--redis-tls-cert", f.path("tls.crt"), "--redis-tls-key",
		f.path("tls.key"))
	d.start(p)
	return addr
}

func TestUsersAndCertificatesOfClientsChangeWhileTheyAreConnected(t *testing.T) {
	const rights = " ~* &* +@all"
	users := usersFile(t, "user app on >first"+rights, "user report on >secret"+rights)
	d := deploy(t, func(c *contract.Config) { c.Auth = &contract.Auth{UsersFile: users} })
	f := redisTLS{t.TempDir()}
	addr := d.serveTLS(f)
	sidecar := d.procs["a-sidecar"]
	eventually(t, "the sidecar to say that its certificate is missing", func() error {
		if r, err := sidecar.readiness(); err != nil || r.Ready || !strings.Contains(r.Reason, f.path("tls.crt")) {
			return fmt.Errorf("%+v, %w", r, err)
		}
		return nil
	})
	f.renew(t)
	d.awaitReady(sidecar)

	app, report := f.client(t, addr, "app", "first"), f.client(t, addr, "report", "secret")
	must(t, app.Set(t.Context(), "x", "1", 0).Err())
	if got, err := report.Do(t.Context(), "ACL", "WHOAMI").Text(); err != nil || got != "report" {
		t.Errorf("ACL WHOAMI: %q, %v", got, err)
	}

	// A password is rotated in two steps, with clients that know the new one in between.
	replaceFile(t, users, []byte("user app on >first >second"+rights+"\nuser report on >secret"+rights))
	eventually(t, "the new password to be accepted", func() error {
		return f.client(t, addr, "app", "second").Ping(t.Context()).Err()
	})
	must(t, f.client(t, addr, "app", "first").Ping(t.Context()).Err())
	must(t, report.Ping(t.Context()).Err())
	replaceFile(t, users, []byte("user app on >second"+rights))
	eventually(t, "the connection of the deleted user to be closed", func() error {
		if err := report.Ping(t.Context()).Err(); err != nil {
			return nil
		}
		return errors.New("the deleted user is still connected")
	})
	if err := f.client(t, addr, "app", "first").Ping(t.Context()).Err(); err == nil ||
		!strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("the old password: %v", err)
	}
	must(t, app.Get(t.Context(), "x").Err()) // its connection is as old as its password
	replaceFile(t, users, []byte("user app on >second >second2 >second3"+rights))
	eventually(t, "the bad file to be reported", func() error {
		if r, err := sidecar.readiness(); err != nil || !strings.Contains(r.ConfigProblem, "at most 2") ||
			len(r.RestartNeeded) > 0 {
			return fmt.Errorf("%+v, %w", r, err)
		}
		return nil
	})
	must(t, f.client(t, addr, "app", "second").Ping(t.Context()).Err())

	before := f.client(t, addr, "app", "second")
	must(t, before.Ping(t.Context()).Err())
	f.renew(t)
	must(t, f.client(t, addr, "app", "second").Ping(t.Context()).Err())
	must(t, before.Ping(t.Context()).Err())
	if text := d.logOf("a-sidecar"); strings.Contains(text, "second") ||
		!strings.Contains(text, "loaded new TLS files") {
		t.Errorf("log: %s", text)
	}
}

func TestRedisCLIWorksOverTLSAndTheWrongProtocolIsNamed(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("no redis-cli in PATH: apt-get install redis-tools")
	}
	if help, _ := exec.Command(cli, "--help").CombinedOutput(); !bytes.Contains(help, []byte("--tls")) {
		t.Skip("redis-cli was built without TLS")
	}
	d := deploy(t, func(c *contract.Config) {
		c.Auth = &contract.Auth{UsersFile: usersFile(t, "user app on >secret ~* &* +@all")}
	})
	f := redisTLS{t.TempDir()}
	f.renew(t)
	addr := d.serveTLS(f)
	d.awaitReady(d.procs["a-sidecar"])
	run := func(addr, input string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		host, port, _ := net.SplitHostPort(addr)
		cmd := exec.CommandContext(ctx, cli,
			append([]string{"-h", host, "-p", port, "--user", "app", "--no-auth-warning"}, args...)...)
		cmd.Env = append(os.Environ(), "REDISCLI_AUTH=secret")
		cmd.Stdin = strings.NewReader(input)
		out, _ := cmd.CombinedOutput() // it also fails to say what this test wants to see
		return string(out)
	}
	secure, plain := []string{"--tls", "--cacert", f.path("ca.crt")}, d.procs["a-sidecar"].redis
	if got := run(addr, "", append(secure, "SET", "k", "v")...); got != "OK\n" {
		t.Errorf("SET over TLS: %q", got)
	}
	var all strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&all, "*3\r\n$3\r\nSET\r\n$%d\r\nk%d\r\n$100\r\n%0100d\r\n", len(fmt.Sprint("k", i%500)), i%500, i)
	}
	if got := run(addr, all.String(), append(secure, "--pipe")...); !strings.Contains(got,
		"errors: 0, replies: 50000") {
		t.Errorf("a pipeline over TLS: %q", got)
	}
	eventually(t, "another session to read the last write, without TLS on the port without", func() error {
		if got := run(plain, "", "GET", "k499"); got != fmt.Sprintf("%0100d\n", 49_999) {
			return fmt.Errorf("GET: %q", got)
		}
		return nil
	})
	if got := run(addr, "", "GET", "k"); !strings.Contains(got, "this port is for TLS") {
		t.Errorf("without TLS on the port with TLS: %q", got)
	}
	if text := d.logOf("a-sidecar"); !strings.Contains(text, "without TLS on the port with TLS") {
		t.Errorf("log: %s", text)
	}
	d.stop("a-sidecar") // the log is limited to one line a minute
	d.restart("a-sidecar")
	if got := run(plain, "", append(secure, "GET", "k")...); !strings.Contains(got, "Could not") &&
		!strings.Contains(got, "SSL") {
		t.Errorf("with TLS on the port without: %q", got)
	}
	eventually(t, "the log line", func() error {
		if text := d.logOf("a-sidecar"); !strings.Contains(text, "with TLS on the port without TLS") {
			return errors.New("it is missing")
		}
		return nil
	})
}

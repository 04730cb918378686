package processes_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/contract"
)

// certificates makes certificates with the command line, as somebody would who runs the parts by hand.
type certificates struct {
	t   *testing.T
	dir string
	// trustFiles are those of data centers that do not have the common one.
	trustFiles map[string]string
}

func newCertificates(t *testing.T) *certificates {
	t.Helper()
	return &certificates{t: t, dir: t.TempDir(), trustFiles: map[string]string{}}
}

// run runs causalstore identity.
func (c *certificates) run(args ...string) {
	c.t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"identity"}, args...)...)
	cmd.Env = append(os.Environ(), runAsProgram+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("causalstore identity %v: %v: %s", args, err, out)
	}
}

// authority makes an authority and returns its folder.
func (c *certificates) authority(name, trustDomain string) string {
	c.t.Helper()
	dir := filepath.Join(c.dir, name)
	c.run("authority", "--dir", dir, "--trust-domain", trustDomain)
	return dir
}

// issue makes the certificate of a part, which a file in the folder of its data center and role is named after.
func (c *certificates) issue(authority, dc, role, member string, more ...string) (path string) {
	c.t.Helper()
	path = filepath.Join(c.dir, dc+"-"+role, "tls")
	c.run(append([]string{"issue", "--authority", authority, "--store-id", "test", "--dc", dc, "--role", role,
		"--member", member, "--out", path}, more...)...)
	return path
}

// issueAll makes the certificates of all parts of a deployment.
func (c *certificates) issueAll(authority string) {
	c.t.Helper()
	for _, dc := range []string{"a", "b", "c"} {
		c.issueDC(authority, dc)
	}
}

// issueDC makes the certificates of all parts of a data center.
func (c *certificates) issueDC(authority, dc string) {
	c.t.Helper()
	for _, role := range parts {
		member := "0"
		if role == "sidecar" {
			member = "shop"
		}
		c.issue(authority, dc, role, member)
	}
}

// trust makes the trust file: one region, with these authorities.
func (c *certificates) trust(authorities ...string) {
	c.t.Helper()
	args := []string{"trust", "--store-id", "test", "--out", c.trustFile()}
	for _, dc := range []string{"a", "b", "c"} {
		for _, a := range authorities {
			args = append(args, "--data-center", fmt.Sprintf("%s=%s", dc, a))
		}
	}
	c.run(args...)
}

func (c *certificates) trustFile() string { return filepath.Join(c.dir, "trust.yaml") }

// trustAt writes a trust file for one process, which differs from that of the others by a change.
func (c *certificates) trustAt(file string, change func(*contract.Trust)) {
	c.t.Helper()
	text, err := os.ReadFile(c.trustFile())
	must(c.t, err)
	trust, err := contract.ParseTrust(text)
	must(c.t, err)
	change(trust)
	text, err = yaml.Marshal(trust)
	must(c.t, err)
	must(c.t, os.WriteFile(file+".new", text, 0o600))
	must(c.t, os.Rename(file+".new", file))
}

// trustIn makes the trust file of one data center: the authorities of each.
func (c *certificates) trustIn(dc string, authorities map[string][]string) {
	c.t.Helper()
	c.trustFiles[dc] = filepath.Join(c.dir, "trust-"+dc+".yaml")
	args := []string{"trust", "--store-id", "test", "--out", c.trustFiles[dc]}
	for of, all := range authorities {
		for _, a := range all {
			args = append(args, "--data-center", of+"="+a)
		}
	}
	c.run(args...)
}

// of returns the files of a part.
func (c *certificates) of(dc, role string) *contract.LinkTLS {
	base := filepath.Join(c.dir, dc+"-"+role, "tls")
	return &contract.LinkTLS{Cert: base + ".crt", Key: base + ".key", Trust: cmp.Or(c.trustFiles[dc], c.trustFile())}
}

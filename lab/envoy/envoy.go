// Package envoy lets the edge of a data center run as a process on this machine: with the configuration that the
// operator gives it in a pod, but for its folders and addresses. Starting Envoy is left to the caller.
package envoy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
)

// ProgramVariable is the environment variable that names the program of Envoy.
const ProgramVariable = "CAUSALSTORE_ENVOY"

// Edge is where an edge keeps its files and listens.
type Edge struct {
	// Dir is the folder of the configuration and, unless CertificateDir names another one, of the certificate.
	Dir, CertificateDir string
	// Egress, EgressParts, Ingress and HTTP are host:port, with IP addresses.
	Egress, EgressParts, Ingress, HTTP string
}

// Write writes the files of a configuration, and the certificate and key of the edge in PEM. A running Envoy applies
// them.
func (e *Edge) Write(in edge.Input, certificate, key []byte) error {
	files, err := edge.Configure(in)
	if err != nil {
		return err
	}
	if err := os.Symlink(".", filepath.Join(e.Dir, "..data")); err != nil && !errors.Is(err, fs.ErrExist) {
		// a mounted ConfigMap has it
		return fmt.Errorf("write the files of an edge: %w", err)
	}
	content := map[string][]byte{filepath.Join(e.certificates(), "0.crt"): certificate,
		filepath.Join(e.certificates(), "0.key"): key}
	for name, text := range files {
		moved, err := e.Move(text)
		if err != nil {
			return fmt.Errorf("configure the edge of %s: %w", in.DataCenter, err)
		}
		content[filepath.Join(e.Dir, name)] = []byte(moved)
	}
	for path, text := range content {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return fmt.Errorf("write the files of an edge: %w", err)
		}
	}
	return nil
}

// certificates is the folder of the certificate.
func (e *Edge) certificates() string { return cmp.Or(e.CertificateDir, e.Dir) }

// Arguments returns the arguments to start Envoy with.
func (e *Edge) Arguments() ([]string, error) {
	var args []string
	for _, a := range edge.Arguments() {
		moved, err := e.Move(a)
		if err != nil {
			return nil, err
		}
		args = append(args, moved)
	}
	return args, nil
}

// Move replaces the folders and addresses of a pod by those of the edge, in a file or an argument.
func (e *Edge) Move(text string) (string, error) {
	for from, to := range map[int]string{edge.PortEgress: e.Egress, edge.PortEgressParts: e.EgressParts,
		edge.PortIngress: e.Ingress, edge.PortHTTP: e.HTTP} {
		host, port, err := net.SplitHostPort(to)
		if err != nil {
			return "", err
		}
		listen := regexp.MustCompile(`address: 0\.0\.0\.0(\s+port_value: )` + strconv.Itoa(from))
		text = listen.ReplaceAllString(text, "address: "+host+"${1}"+port)
	}
	return strings.NewReplacer(edge.ConfigDir, e.Dir, edge.CertificateDir, e.certificates(), "@causalstore-edge-admin",
		"@causalstore-"+e.HTTP).Replace(text), nil
}

// Via returns the address of the egress that processes of a role dial.
func (e *Edge) Via(role contract.Role) string {
	if role == contract.RoleSidecar {
		return e.Egress
	}
	return e.EgressParts
}

// Ready returns an error until Envoy is ready and accepts connections from sidecars and from parts.
func (e *Edge) Ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.HTTP+"/ready", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /ready of an edge: %s", resp.Status)
	}
	for _, egress := range []string{e.Egress, e.EgressParts} {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", egress)
		if err != nil {
			return err
		}
		if err := conn.Close(); err != nil {
			return err
		}
	}
	return nil
}

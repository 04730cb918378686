package command

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/canary"
)

// Environment variables of a canary, which a command line would show to everyone on the machine.
const (
	canarySecretEnv = "CAUSALSTORE_CANARY_SECRET"
	canaryTokenEnv  = "CAUSALSTORE_CANARY_TOKEN"
)

// canaryFlags are the flags of `causalstore canary`.
type canaryFlags struct {
	config                           canary.Config
	listen, usersDir, certificateDir string
	duration                         time.Duration
}

// NewCanaryCommand returns `causalstore canary`.
func NewCanaryCommand() *cobra.Command {
	f := canaryFlags{config: canary.Config{Seed: uint64(time.Now().UnixNano())}}
	cmd := &cobra.Command{
		Use:   "canary",
		Short: "Write and read slowly through one data center, for a drill that watches",
		Long: `Writes and reads a few keys through one data center, slowly, and serves what it
saw over HTTP. kubectl causal drill starts two in each data center: one connects to the front, the
other one to the sidecar that is injected into its pod. The secret that authenticates its values is
taken from CAUSALSTORE_CANARY_SECRET, and the token that paths begin with from
CAUSALSTORE_CANARY_TOKEN: both are new for each drill.

It ends after --duration, whether or not somebody has stopped it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config.DataCenter, "data-center", "", "data center that is used")
	fs.StringVar(&f.config.Name, "name", "", "what the names of sessions begin with; default: that of the data center")
	fs.StringVar(&f.config.Addr, "address", "", "host:port of its front, or of the sidecar in its pod")
	fs.BoolVar(&f.config.OneSession, "one-session", false,
		"all connections to the address are one session, as those to a sidecar are if spec.session.scope is Pod")
	fs.StringVar(&f.config.Prefix, "prefix", "", "what all keys begin with; new for each drill")
	fs.IntVar(&f.config.Keys, "keys", 32, "number of keys")
	fs.IntVar(&f.config.Sessions, "sessions", 3, "number of sessions")
	fs.Float64Var(&f.config.Rate, "rate", 15, "operations per second of all sessions together")
	fs.DurationVar(&f.config.Timeout, "timeout", 2*time.Second, "how long to wait for a reply")
	fs.DurationVar(&f.config.TTL, "ttl", 2*time.Hour, "time to live of the keys; it must be longer than --duration")
	fs.DurationVar(&f.duration, "duration", time.Hour, "how long to run at most")
	fs.StringVar(&f.listen, "listen-http", ":7480", "address to serve at")
	fs.StringVar(&f.usersDir, "users-dir", "",
		"folder with the users of clients, as the Secret of spec.clients.usersSecret has them")
	fs.StringVar(&f.certificateDir, "front-certificate-dir", "",
		"folder with tls.crt, the certificate that the front has; empty: no TLS")
	return cmd
}

func (f *canaryFlags) run(ctx context.Context) error {
	f.config.Secret = []byte(os.Getenv(canarySecretEnv))
	token := os.Getenv(canaryTokenEnv)
	if len(f.config.Secret) == 0 || token == "" {
		return fmt.Errorf("set %s and %s", canarySecretEnv, canaryTokenEnv)
	}
	if f.config.TTL <= f.duration {
		return fmt.Errorf("--ttl %s: it must be longer than --duration %s, or keys expire that the checker expects",
			f.config.TTL, f.duration)
	}
	if err := f.credentials(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.duration)
	defer cancel()
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen-http: %w", err)
	}
	c, err := canary.Start(ctx, f.config)
	if err != nil {
		_ = l.Close() // nothing was served
		return err
	}
	server := &http.Server{Handler: c.Handler(token), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	c.Stop()
	return nil
}

// credentials reads how to connect to the front.
func (f *canaryFlags) credentials() error {
	if f.usersDir != "" {
		users, err := readUsers(f.usersDir)
		if err != nil {
			return err
		}
		if f.config.User, f.config.Password, err = contract.FirstUser(users); err != nil {
			return fmt.Errorf("--users-dir %s: %w", f.usersDir, err)
		}
	}
	if f.certificateDir != "" {
		file := filepath.Join(f.certificateDir, "tls.crt")
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--front-certificate-dir: %w", err)
		}
		block, _ := pem.Decode(b)
		if block == nil {
			return fmt.Errorf("%s has no certificate in PEM", file)
		}
		f.config.TLS = contract.PinFront(block.Bytes)
	}
	return nil
}

// readUsers reads a folder that a Secret is mounted at. Names that begin with a dot are those of Kubernetes.
func readUsers(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("--users-dir: %w", err)
	}
	users := map[string][]byte{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if users[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("--users-dir: %w", err)
		}
	}
	return users, nil
}

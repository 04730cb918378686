package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
)

// The files of an authority in its folder.
const (
	authorityCert = "authority.crt"
	authorityKey  = "authority.key"
)

// newIdentityCommand returns `causalstore identity`.
func newIdentityCommand(Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "identity",
		Short: "Make the certificates of parts that are run by hand",
		Long: `Makes what tls of the configuration file names: the certificate and key of each
part, and the trust file. In Kubernetes the operator does this.

Each part needs a certificate of its own, which says what it is; all parts share the trust file. A
region has one authority. Keep its key away from the machines that run parts: whoever has it can be
any part of the region.`,
		Example: `  causalstore identity authority --dir eu --trust-domain eu.example.com
  causalstore identity trust --store-id orders --data-center eu-west-1=eu --out trust.yaml
  causalstore identity issue --authority eu --store-id orders --dc eu-west-1 --role coordinator --member 0 --out tls/0
  causalstore identity issue --authority eu --store-id orders --dc eu-west-1 --role sidecar --member shop --out tls/shop`,
	}
	cmd.AddCommand(newAuthorityCommand(), newIssueCommand(), newTrustCommand())
	return cmd
}

func newAuthorityCommand() *cobra.Command {
	var dir, domain string
	cmd := &cobra.Command{
		Use:   "authority",
		Short: "Make the authority of a region",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := authority.NewAuthority(domain, time.Now())
			if err != nil {
				return err
			}
			key, err := a.KeyPEM()
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			if err := writeNew(filepath.Join(dir, authorityKey), key, 0o600); err != nil {
				return err
			}
			return writeNew(filepath.Join(dir, authorityCert), a.CertificatePEM(), 0o644)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder for "+authorityCert+" and "+authorityKey+
		", which must not exist there yet (required)")
	cmd.Flags().StringVar(&domain, "trust-domain", "",
		"name of the region's trust domain, a DNS name in lower case (required)")
	require(cmd, "dir", "trust-domain")
	return cmd
}

// writeNew writes a file that must not exist: an authority that is overwritten is lost.
func writeNew(path string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists; give another folder, or remove it if nothing uses it any more", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

func newIssueCommand() *cobra.Command {
	var dir, out, role string
	var id contract.Identity
	var validity time.Duration
	cmd := &cobra.Command{
		Use:   "issue",
		Short: "Make the certificate and key of a part",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := loadAuthority(dir)
			if err != nil {
				return err
			}
			id.TrustDomain, id.Role = a.TrustDomain(), contract.Role(role)
			cert, key, err := a.Issue(id, time.Now().Add(-authority.Backdate), authority.Backdate+validity)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(out), 0o700); err != nil {
				return err
			}
			// A process that reads between the two keeps what it has, since they do not match.
			if err := replaceFile(out+".key", key, 0o600); err != nil {
				return err
			}
			return replaceFile(out+".crt", cert, 0o644)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&dir, "authority", "", "folder of the authority (required)")
	fs.StringVar(&id.StoreID, "store-id", "", "name of the store, the same for all its parts (required)")
	fs.StringVar(&id.DataCenter, "dc", "", "data center of the part (required)")
	fs.StringVar(&role, "role", "", "coordinator, middleman, cache, sidecar, edge or etcd (required)")
	fs.StringVar(&id.Member, "member", "",
		"index of the part; for a sidecar, a name for the apps that share the certificate (required)")
	fs.DurationVar(&validity, "validity", 7*24*time.Hour,
		"how long the certificate is valid from now on; it starts 10 minutes ago")
	fs.StringVar(&out, "out", "", "path of the files without .crt and .key; they are replaced (required)")
	require(cmd, "authority", "store-id", "dc", "role", "member", "out")
	return cmd
}

func newTrustCommand() *cobra.Command {
	var store, out string
	var dcs []string
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Make the trust file, which all parts of a store share",
		Long: `Makes the trust file: whose authority speaks for which data center. If a data
center is given several times with folders of authorities of the same trust domain, all of them are
trusted: to replace an authority, trust both, issue new certificates, and then trust the new one
alone.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			t := contract.Trust{StoreID: store, DataCenters: map[string]string{}, Bundles: map[string]string{}}
			for _, given := range dcs {
				if err := addTrust(&t, given); err != nil {
					return err
				}
			}
			b, err := yaml.Marshal(t)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
				return err
			}
			return replaceFile(out, b, 0o644)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&store, "store-id", "", "name of the store, the same for all its parts (required)")
	fs.StringArrayVar(&dcs, "data-center", nil,
		"name of a data center and the folder of its authority, as NAME=DIR; repeat it for each (required)")
	fs.StringVar(&out, "out", "", "path of the trust file; it is replaced, and its folder is made (required)")
	require(cmd, "store-id", "data-center", "out")
	return cmd
}

// addTrust adds a data center and its authority, given as NAME=DIR.
func addTrust(t *contract.Trust, given string) error {
	name, dir, ok := strings.Cut(given, "=")
	if !ok || name == "" {
		return fmt.Errorf("--data-center %q is not NAME=DIR", given)
	}
	pem, err := os.ReadFile(filepath.Join(dir, authorityCert))
	if err != nil {
		return fmt.Errorf("read the authority of %s: %w", name, err)
	}
	domain, err := authority.TrustDomainOf(pem)
	if err != nil {
		return fmt.Errorf("authority of %s: %w", name, err)
	}
	if other, ok := t.DataCenters[name]; ok && other != domain {
		return fmt.Errorf("data center %s is given the trust domains %s and %s; it has one", name, other, domain)
	}
	t.DataCenters[name] = domain
	if !strings.Contains(t.Bundles[domain], string(pem)) {
		t.Bundles[domain] += string(pem)
	}
	return nil
}

func loadAuthority(dir string) (*authority.Authority, error) {
	cert, err := os.ReadFile(filepath.Join(dir, authorityCert))
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(dir, authorityKey))
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	return authority.Load(cert, key)
}

// replaceFile writes a file atomically.
func replaceFile(path string, content []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func require(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		_ = cmd.MarkFlagRequired(f) // fails only for an unknown flag
	}
}

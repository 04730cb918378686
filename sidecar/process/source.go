package process

import (
	"bytes"
	"fmt"
	"os"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// Source is where a configuration comes from.
type Source struct {
	// Path is the configuration file.
	Path string
	// Override changes the configuration after it was read, as command line flags do. It may be nil.
	Override func(*contract.Config)
}

// Load reads the file and what it refers to, and checks it for a part.
func (s Source) Load(part topology.Part) (*Settings, error) {
	b, err := os.ReadFile(s.Path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c, err := contract.ParseConfig(b)
	if err == nil {
		if s.Override != nil {
			s.Override(c)
		}
		var set *Settings
		if set, err = check(*c, part); err == nil {
			return set, nil
		}
	}
	return nil, fmt.Errorf("configuration %s:\n%w", s.Path, err)
}

// readSecret returns the content of a file that holds a password or a key, without the line end that editors add.
func readSecret(field, path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return bytes.TrimRight(b, "\r\n"), nil
}

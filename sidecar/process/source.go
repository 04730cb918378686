package process

import (
	"bytes"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Source is where a configuration comes from.
type Source struct {
	// Path is the configuration file.
	Path string
	// Override changes what the file says, as flags do; nil changes nothing.
	Override func(*Config)
}

// Load reads the file, and what it refers to, and checks it for a part.
func (s Source) Load(part topology.Part) (*Settings, error) {
	b, err := os.ReadFile(s.Path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c, err := Parse(b)
	if err == nil {
		if s.Override != nil {
			s.Override(c)
		}
		var set *Settings
		if set, err = c.settings(part); err == nil {
			return set, nil
		}
	}
	return nil, fmt.Errorf("configuration %s:\n%w", s.Path, err)
}

// Parse reads a configuration in YAML or JSON; unknown fields are refused, since they are most likely misspelled.
func Parse(b []byte) (*Config, error) {
	var c Config
	if err := yaml.UnmarshalStrict(b, &c); err != nil {
		return nil, err
	}
	return &c, nil
}

// secret returns the content of a file that holds a password or a key, without the line end that editors add.
func secret(field, path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return bytes.TrimRight(b, "\r\n"), nil
}

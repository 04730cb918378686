package group

import (
	"errors"
	"fmt"
	"slices"
)

// valueFormat is the version of the encoding of a configuration in the register. A reader refuses every other one.
const valueFormat = 1

// extendedValueFormat is that of a configuration that is extended: Config.isExtended.
const extendedValueFormat = 2

// maxValueBytes bounds a configuration in the register: three members with long host names take a tenth of it.
const maxValueBytes = 8 << 10

// AppendValue appends the value that stands for c in the register to dst: a byte for the format, and the fields as in
// an Entry.
func (c *Config) AppendValue(dst []byte) []byte {
	format := byte(valueFormat)
	if c.isExtended() {
		format = extendedValueFormat
	}
	return c.appendTo(append(dst, format))
}

// ParseValue decodes a value of the register. The result does not refer to b.
func ParseValue(b []byte) (Config, error) {
	switch {
	case len(b) == 0:
		return Config{}, errors.New("the value is empty")
	case len(b) > maxValueBytes:
		return Config{}, fmt.Errorf("the value has %d bytes; a configuration has %d at most", len(b), maxValueBytes)
	case b[0] != valueFormat && b[0] != extendedValueFormat:
		return Config{},
			fmt.Errorf(
				"the value has format %d; this version reads formats %d and %d only: start the version that wrote it",
				b[0], valueFormat, extendedValueFormat)
	}
	d := newEntryReader(b[1:])
	d.extended = b[0] == extendedValueFormat
	c := d.config()
	if d.Failed() || d.malformed || d.Left() != 0 {
		return Config{}, errors.New("the value is damaged, or was written by something else")
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("the value is no configuration: %w", err)
	}
	return c, nil
}

// check returns why c cannot be the configuration of a group.
func (c *Config) check() error {
	switch {
	case c.Group == 0 || c.Epoch == 0:
		return errors.New("its group or its epoch is 0")
	case c.Nonce == Nonce{}:
		return errors.New("it has no nonce")
	case !c.Has(c.Primary):
		return fmt.Errorf("its primary %s is not one of its members", c.Primary)
	}
	for i, id := range c.Members {
		sameName := func(other ID) bool { return other.Name == id.Name }
		if id.Name == "" || id.Volume == 0 || slices.ContainsFunc(c.Members[:i], sameName) {
			return fmt.Errorf("its member %s has no name or no volume, or is there twice", id)
		}
	}
	return nil
}

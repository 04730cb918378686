package group

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ID is the identity of a member: where it can be reached, and which volume it writes to. A member whose volume was
// emptied or replaced has another identity, so nothing that the lost volume had acknowledged counts for it.
type ID struct {
	Name string
	// of a volume: never 0, and never given to two volumes. In an address, 0 means whatever volume is there
	Volume uint64
}

func (id ID) String() string { return fmt.Sprintf("%s/%d", id.Name, id.Volume) }

// Stamp identifies one session of one primary: the epoch of the configuration in which the session began, and the
// primary's life, which counts its starts. Every record carries the stamp of the session that wrote it.
//
// Invariant: two records at one position with one stamp are the same record, and so are all before them. For an epoch
// has one primary, a life has one session in an epoch, and a member appends a record only behind the one that the
// primary has before it.
type Stamp struct{ Epoch, Life uint64 }

// Compare orders sessions: of two, the later one began later in the register's history or in the life of the same
// primary.
func (s Stamp) Compare(t Stamp) int {
	if c := cmp.Compare(s.Epoch, t.Epoch); c != 0 {
		return c
	}
	return cmp.Compare(s.Life, t.Life)
}

// Nonce identifies a proposal of a configuration for ever: the volume and the life of its author, and a number.
type Nonce struct{ Volume, Life, Number uint64 }

// Config is a configuration of a group, the value of its register. It is changed by compare-and-swap only.
//
// Invariants: a successful swap raises the epoch; the primary is a member; the primary and all other members of a
// configuration, but those that join with it, were members of the one before.
type Config struct {
	// Group is the volume of the member that created the group. It never changes, and keeps groups apart.
	Group   uint64
	Epoch   uint64
	Members []ID // never changed in place
	Primary ID
	Nonce   Nonce
	// Replaced are the groups that were given up in favor of this one, or of one among them; the newest last,
	// maxReplaced at most. What a volume has of one of them is void.
	Replaced []uint64
}

// maxReplaced bounds Config.Replaced.
const maxReplaced = 16

// replaces reports whether a group was given up in favor of that of c.
func (c *Config) replaces(group uint64) bool { return group != 0 && slices.Contains(c.Replaced, group) }

// isExtended reports whether c has what the first formats do not know.
func (c *Config) isExtended() bool { return len(c.Replaced) > 0 }

// Has reports whether id is a member.
func (c *Config) Has(id ID) bool { return slices.Contains(c.Members, id) }

func (c *Config) hasName(name string) bool {
	return slices.ContainsFunc(c.Members, func(id ID) bool { return id.Name == name })
}

// sameGroup reports whether two configurations have the same members and the same primary.
func (c *Config) sameGroup(d *Config) bool {
	return c.Primary == d.Primary && slices.Equal(c.Members, d.Members)
}

func (c *Config) String() string {
	var names []string
	for _, id := range c.Members {
		names = append(names, id.String())
	}
	return fmt.Sprintf("epoch %d: %s of %s", c.Epoch, c.Primary, strings.Join(names, " "))
}

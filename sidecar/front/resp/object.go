package resp

import (
	"math"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// OBJECT tells how Redis would store a value. Values are not stored so here, but clients choose their commands by it.

var errNoFrequency = genericError("An LFU maxmemory policy is not selected, access frequency not tracked. Please " +
	"note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")

// Up to where Redis stores what is small in another way, by default.
const (
	maxEmbedded         = 44 // bytes of a string
	maxListpackHash     = 512
	maxListpackSorted   = 128
	maxListpackElement  = 64 // bytes
	maxIntegers         = 512
	maxSharedInteger    = 10_000
	referencesOfAShared = math.MaxInt32
)

// OBJECT ENCODING key
func objectEncoding(c *connection, args [][]byte) error {
	return c.describeValue(args[2], func(v causal.Value) error {
		c.out.writeBulkString(encodingOf(v))
		return nil
	})
}

// OBJECT REFCOUNT key: Redis shares small integers.
func objectRefCount(c *connection, args [][]byte) error {
	return c.describeValue(args[2], func(v causal.Value) error {
		n, isInteger := parseInt(v.Data)
		if !v.Merges() && isInteger && n >= 0 && n < maxSharedInteger {
			c.out.writeInteger(referencesOfAShared)
		} else {
			c.out.writeInteger(1)
		}
		return nil
	})
}

// OBJECT FREQ key
func objectFreq(c *connection, args [][]byte) error {
	return c.describeValue(args[2], func(causal.Value) error { return errNoFrequency })
}

func (c *connection) describeValue(key []byte, write func(v causal.Value) error) error {
	v, exists, err := c.getLive(string(key))
	if err != nil {
		return err
	}
	if !exists {
		c.out.writeNull()
		return nil
	}
	return write(v)
}

// OBJECT HELP
func objectHelp(c *connection, _ [][]byte) error {
	c.writeHelp("OBJECT",
		"ENCODING <key>", "    Return how Redis would represent the value when it is new.",
		"FREQ <key>", "    Return an error: uses of keys are not counted.",
		"REFCOUNT <key>", "    Return how often Redis would use a value that is new.")
	return nil
}

// encodingOf returns the encoding that Redis gives to a value that is new.
func encodingOf(v causal.Value) string {
	_, isInteger := parseInt(v.Data)
	switch kind := value.KindOf(v); {
	case kind == value.Hash:
		return encodingOfElements(v, maxListpackHash, "hashtable")
	case kind == value.SortedSet:
		return encodingOfElements(v, maxListpackSorted, "skiplist")
	case kind == value.Set:
		return encodingOfSet(v)
	case kind == value.List:
		return "quicklist"
	case kind == value.Stream:
		return "stream"
	case kind == value.HyperLogLog:
		return "raw"
	case isInteger:
		return "int"
	case len(v.Data) <= maxEmbedded:
		return "embstr"
	}
	return "raw"
}

func encodingOfElements(v causal.Value, limit int, large string) string {
	h := value.CollectionOf(v)
	for name, payload := range h.All() {
		if len(name) > maxListpackElement || len(payload) > maxListpackElement {
			return large
		}
	}
	if h.Len() > limit {
		return large
	}
	return "listpack"
}

func encodingOfSet(v causal.Value) string {
	h := value.CollectionOf(v)
	for member := range h.All() {
		if _, ok := parseInt([]byte(member)); !ok {
			return "hashtable"
		}
	}
	if h.Len() > maxIntegers {
		return "hashtable"
	}
	return "intset"
}

package register

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// Memory is a register in the memory of a process, for one that runs all members of its groups. Its values end with the process.
type Memory struct {
	mu      sync.Mutex
	cluster string
	values  map[string][]byte
	keys    []*memoryKey
	fault   Fault
}

// Fault is a way in which a Memory fails, for tests.
type Fault uint8

// The faults.
const (
	NoFault     Fault = iota
	Away              // no request arrives
	AnswersLost       // requests are carried out, and the answers are lost
	HintsLost         // nobody is told about changes
)

// NewMemory returns a register without values.
func NewMemory() *Memory { return &Memory{cluster: rand.Text(), values: map[string][]byte{}} }

// SetFault makes the register fail, or work again. When it works again, it tells everybody to look.
func (m *Memory) SetFault(f Fault) {
	m.mu.Lock()
	m.fault = f
	keys := slices.Clone(m.keys)
	m.mu.Unlock()
	if f == NoFault {
		notifyAll(keys, "")
	}
}

// Close implements Register.
func (m *Memory) Close() error { return nil }

// Key implements Register.
func (m *Memory) Key(name string, changed func()) Key {
	k := &memoryKey{m: m, name: name, changed: changed}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys = append(m.keys, k)
	return k
}

type memoryKey struct {
	m       *Memory
	name    string
	changed func()
}

// Close implements Key.
func (k *memoryKey) Close() {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	k.m.keys = slices.DeleteFunc(k.m.keys, func(other *memoryKey) bool { return other == k })
}

func notifyAll(keys []*memoryKey, name string) {
	for _, k := range keys {
		if name == "" || k.name == name {
			k.changed()
		}
	}
}

// Do implements Key.
func (k *memoryKey) Do(_ context.Context, op group.RegisterOp) group.RegisterResult {
	m := k.m
	m.mu.Lock()
	fault := m.fault
	lost := group.RegisterResult{ID: op.ID, Outcome: group.Failed}
	if op.Swap {
		lost.Outcome = group.Unknown
	}
	if fault == Away {
		m.mu.Unlock()
		return lost
	}
	res := m.do(k.name, &op)
	var told []*memoryKey
	if op.Swap && res.Outcome == group.Done && fault != HintsLost {
		told = slices.Clone(m.keys)
	}
	m.mu.Unlock()
	notifyAll(told, k.name)
	if fault == AnswersLost {
		return lost
	}
	return res
}

// do carries out a request.
func (m *Memory) do(name string, op *group.RegisterOp) group.RegisterResult {
	res := group.RegisterResult{ID: op.ID, Outcome: group.Done, Cluster: m.cluster}
	if value, ok := m.values[name]; ok {
		config, err := group.ParseValue(value)
		if err != nil {
			return group.RegisterResult{ID: op.ID, Outcome: group.Failed} // unreachable: it was encoded here
		}
		res.Found, res.Config = true, config
	}
	switch {
	case !op.Swap:
	case op.Cluster != m.cluster || op.Expect != res.Config.Nonce:
		return group.RegisterResult{ID: op.ID, Outcome: group.Failed}
	default:
		m.values[name] = op.Config.AppendValue(nil)
		res.Found, res.Config = false, group.Config{}
	}
	return res
}

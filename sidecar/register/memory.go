package register

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// Memory is a register in the memory of a process, for one that runs all members of its groups. Its values end with the
// process, unless it has a file.
type Memory struct {
	file    string // "": none
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

// memoryFile is the content of the file of a Memory, as JSON.
type memoryFile struct {
	Cluster string            `json:"cluster"`
	Values  map[string][]byte `json:"values"`
}

// OpenFile returns a register that keeps its values in a file, which is made if there is none. One process uses it at a
// time.
func OpenFile(file string) (*Memory, error) {
	m := NewMemory()
	m.file = file
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, m.save()
	}
	if err != nil {
		return nil, fmt.Errorf("open the register: %w", err)
	}
	var content memoryFile
	if err := json.Unmarshal(b, &content); err != nil || content.Cluster == "" {
		return nil,
			fmt.Errorf(
				"open the register: %s is damaged: put back the file, or remove it with the folders of all "+
					"coordinators", file)
	}
	m.cluster = content.Cluster
	maps.Copy(m.values, content.Values)
	return m, nil
}

// save makes the values durable, if there is a file.
func (m *Memory) save() error {
	if m.file == "" {
		return nil
	}
	b, err := json.Marshal(memoryFile{m.cluster, m.values})
	if err != nil {
		return err
	}
	next, err := os.Create(m.file + ".new")
	if err != nil {
		return fmt.Errorf("save the register: %w", err)
	}
	_, err = next.Write(b)
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), m.file)
	}
	if err != nil {
		return fmt.Errorf("save the register: %w", err)
	}
	return nil
}

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

// Has reports whether there is a value for a key.
func (m *Memory) Has(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.values[name]
	return ok
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
		if m.save() != nil {
			return group.RegisterResult{ID: op.ID, Outcome: group.Unknown} // it is in memory, and may be in the file
		}
		res.Found, res.Config = false, group.Config{}
	}
	return res
}

package member

import (
	"maps"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// modelStore is a storage that keeps a number of keys of its own.
type modelStore struct {
	keys   map[string]causal.Record
	meta   map[string]string
	marker Applied
	len    int
}

func newModelStore() modelStore {
	return modelStore{keys: map[string]causal.Record{}, meta: map[string]string{}}
}

func (m *modelStore) set(key string, r causal.Record, exists bool) {
	if !exists {
		m.len++
	}
	m.keys[key] = r
}

// run carries out a task.
func (m *modelStore) run(t *StorageTask) (r StorageTaskResult) {
	switch t.Kind {
	case TaskApply:
		for _, c := range t.Changes {
			for _, w := range c.Writes {
				exists := w.KeyExists
				if t.CheckExistence {
					_, exists = m.keys[w.Key]
				}
				if !w.Delete {
					m.set(w.Key, w.Record, exists)
					continue
				}
				if exists {
					m.len--
				}
				delete(m.keys, w.Key)
			}
			m.setMeta(c.Meta)
		}
	case TaskClear:
		*m = newModelStore()
	case TaskRead:
		for _, k := range slices.Sorted(maps.Keys(m.keys)) {
			if k <= t.After {
				continue
			}
			const perPage = 3
			if len(r.Records) == perPage {
				r.Next = r.Records[perPage-1].Key
				break
			}
			r.Records = append(r.Records, causal.Moved{Key: k, Record: m.keys[k]})
		}
		for name, v := range m.meta {
			if t.First {
				r.Meta = append(r.Meta, Meta{name, []byte(v)})
			}
		}
		return r
	case TaskWrite:
		for _, x := range t.Records {
			_, exists := m.keys[x.Key]
			m.set(x.Key, x.Record, exists)
		}
		m.setMeta(t.Meta)
	}
	m.marker = t.Marker
	return r
}

func (m *modelStore) setMeta(meta []Meta) {
	for _, x := range meta {
		m.meta[x.Name] = string(x.Value)
	}
}

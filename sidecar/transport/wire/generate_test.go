package wire

import (
	"reflect"

	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// each calls f with a message for every leaf field of causal.Message but bodies, however deep: in it, only that field
// is not zero. It goes by reflection, so a field that is added to the protocol is in the tests at once.
func each(f func(path string, m causal.Message)) {
	var walk func(t reflect.Type, path string, set func(func(reflect.Value)) causal.Message)
	walk = func(t reflect.Type, path string, set func(func(reflect.Value)) causal.Message) {
		switch t.Kind() {
		case reflect.Struct:
			for i := range t.NumField() {
				walk(t.Field(i).Type, path+"."+t.Field(i).Name, func(leaf func(reflect.Value)) causal.Message {
					return set(func(v reflect.Value) { leaf(v.Field(i)) })
				})
			}
		case reflect.Slice:
			if t.Elem().Kind() == reflect.Uint8 {
				f(path, set(func(v reflect.Value) { v.SetBytes([]byte{7, 0, 200}) }))
				return
			}
			walk(t.Elem(), path+"[]", func(leaf func(reflect.Value)) causal.Message {
				return set(func(v reflect.Value) {
					v.Set(reflect.MakeSlice(t, 3, 3))
					leaf(v.Index(1)) // the zero elements beside it must come back as well
				})
			})
		default:
			f(path, set(fillScalar))
		}
	}
	for name, part := range map[string]func(*causal.Message) any{
		"Kind": func(m *causal.Message) any { return &m.Kind }, "From": func(m *causal.Message) any { return &m.From },
		"To": func(m *causal.Message) any { return &m.To }, "Fields": func(m *causal.Message) any { return m.Fields() },
	} {
		walk(reflect.TypeOf(part(&causal.Message{})).Elem(), name, func(leaf func(reflect.Value)) (m causal.Message) {
			leaf(reflect.ValueOf(part(&m)).Elem())
			return m
		})
	}
}

func fillScalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("key\x00\xff")
	case reflect.Int64:
		v.SetInt(-1234567)
	case reflect.Float64:
		v.SetFloat(-12.75)
	default: // the unsigned ones; any other kind panics here and must be added
		v.SetUint(uint64(1)<<min(v.Type().Bits()-1, 63) | 5)
		if v.Type() == reflect.TypeFor[topology.Slot]() {
			v.SetUint(topology.Slots - 1)
		}
	}
}

// full returns a message in which every field is set.
func full() (m causal.Message) {
	fillScalar(reflect.ValueOf(&m.Kind).Elem())
	fillAll(reflect.ValueOf(&m.From).Elem())
	fillAll(reflect.ValueOf(&m.To).Elem())
	fillAll(reflect.ValueOf(m.Fields()).Elem())
	return m
}

func fillAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillAll(v.Index(i))
		}
	default:
		fillScalar(v)
	}
}

func version() *rapid.Generator[causal.Version] {
	return rapid.Custom(func(t *rapid.T) causal.Version {
		return causal.Version{HLC: causal.HLC(rapid.Uint64().Draw(t, "hlc")),
			Origin: topology.Origin(rapid.Uint32().Draw(t, "origin"))}
	})
}

func node() *rapid.Generator[topology.Node] {
	return rapid.Custom(func(t *rapid.T) topology.Node {
		return topology.Node{
			Part:   topology.Part(rapid.Uint8Max(5).Draw(t, "part")),
			DC:     topology.DC(rapid.Uint16().Draw(t, "dc")),
			Index:  rapid.OneOf(rapid.Uint64Max(3), rapid.Uint64()).Draw(t, "index"),
			Member: rapid.Uint8Max(3).Draw(t, "member"),
		}
	})
}

// list draws a list that is nil when empty, as Decode returns it.
func list[T any](t *rapid.T, label string, elem *rapid.Generator[T], limit int) []T {
	l := rapid.SliceOfN(elem, 0, limit).Draw(t, label)
	if len(l) == 0 {
		return nil
	}
	return l
}

func vector() *rapid.Generator[causal.VectorEntry] {
	hlc := rapid.Map(rapid.Uint64(), func(v uint64) causal.HLC { return causal.HLC(v) })
	return rapid.Custom(func(t *rapid.T) causal.VectorEntry {
		return causal.VectorEntry{
			Origin: topology.Origin(rapid.Uint32().Draw(t, "origin")), SV: hlc.Draw(t, "sv"),
			RV: list(t, "rv", hlc, topology.MaxRings), Last: topology.Origin(rapid.Uint32().Draw(t, "last")),
			Settled: hlc.Draw(t, "settled"),
		}
	})
}

func message() *rapid.Generator[causal.Message] {
	dep := rapid.Custom(func(t *rapid.T) causal.Dep {
		return causal.Dep{Version: version().Draw(t, "version"),
			Slot: topology.Slot(rapid.Uint16Max(topology.Slots-1).Draw(t, "slot"))}
	})
	hlc := rapid.Map(rapid.Uint64(), func(v uint64) causal.HLC { return causal.HLC(v) })
	return rapid.Custom(func(t *rapid.T) causal.Message {
		m := causal.Message{
			Kind: causal.Kind(rapid.Uint8().Draw(t, "kind")),
			From: node().Draw(t, "from"),
			To:   node().Draw(t, "to"),
		}
		if b := causal.NewBody(m.Kind); b != nil {
			b.Visit(drawBody(t))
			m.SetBody(b)
			return m
		}
		*m.Fields() = causal.Fields{
			Status:      causal.Status(rapid.Uint8().Draw(t, "status")),
			Err:         causal.ErrCode(rapid.Uint8().Draw(t, "err")),
			Ring:        topology.RingID(rapid.Uint8().Draw(t, "ring")),
			Clean:       rapid.Bool().Draw(t, "clean"),
			Hit:         rapid.Bool().Draw(t, "hit"),
			VersionOnly: rapid.Bool().Draw(t, "version only"),
			Older:       rapid.Bool().Draw(t, "older"),
			ID:          rapid.Uint64().Draw(t, "id"),
			Session:     rapid.Uint64().Draw(t, "session"),
			Seq:         rapid.Uint64().Draw(t, "seq"),
			Epoch:       rapid.Uint64().Draw(t, "epoch"),
			Hash:        rapid.Uint64().Draw(t, "hash"),
			HLC:         hlc.Draw(t, "hlc"),
			Cut:         hlc.Draw(t, "cut"),
			Duration:    rapid.Int64().Draw(t, "duration"),
			Key:         string(rapid.SliceOf(rapid.Byte()).Draw(t, "key")),
			Record: causal.Record{Version: version().Draw(t, "version"), Value: causal.Value{
				Data:       list(t, "data", rapid.Byte(), 300),
				ExpireAtMs: rapid.Int64().Draw(t, "expire"),
				Tombstone:  rapid.Bool().Draw(t, "tombstone"),
			}},
			Deps:     list(t, "deps", dep, 20),
			Versions: list(t, "versions", version(), 20),
			Vectors:  list(t, "vectors", vector(), 5),
		}
		return m
	})
}

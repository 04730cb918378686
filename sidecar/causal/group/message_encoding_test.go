package group

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fillValue sets every field of v, of all types that messages have, to a value that is not zero and differs from the
// others.
func fillValue(t *testing.T, v reflect.Value, next *uint64) {
	t.Helper()
	*next += 3
	switch v.Kind() {
	case reflect.Uint64:
		v.SetUint(*next << 33)
	case reflect.Int64:
		v.SetInt(-int64(*next << 33))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(*next % 256)
	case reflect.String:
		v.SetString("name" + string(rune('a'+*next%26)))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			fillValue(t, v.Index(i), next)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fillValue(t, v.Field(i), next)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(t, v.Elem(), next)
	default:
		t.Fatalf("a field of kind %s: teach this test and the encoding about it", v.Kind())
	}
}

func sampleMessages(t *testing.T) (all []Message) {
	t.Helper()
	next := uint64(0)
	for _, body := range []Body{&Frame{}, &Ack{}, &Report{}, &Probe{}, &Answer{}} {
		full := reflect.New(reflect.TypeOf(body).Elem())
		fillValue(t, full.Elem(), &next)
		all = append(all, Message{From: ID{"p", 7}, To: ID{"q", 1 << 60}, Body: full.Interface().(Body)},
			Message{From: ID{"p", 7}, To: ID{Name: "q"}, Body: body})
		// Each flag for itself: two that share a bit would pass with all set.
		for i := range full.Elem().NumField() {
			if full.Elem().Field(i).Kind() == reflect.Bool {
				one := reflect.New(reflect.TypeOf(body).Elem())
				one.Elem().Field(i).SetBool(true)
				all = append(all, Message{From: ID{"p", 7}, To: ID{"q", 8}, Body: one.Interface().(Body)})
			}
		}
	}
	return all
}

func TestAMessageSurvivesItsEncodingAndNoPrefixOfItIsAccepted(t *testing.T) {
	for _, m := range sampleMessages(t) {
		b := m.AppendTo(nil)
		got, err := ParseMessage(m.From.Name, m.To.Name, b)
		if err != nil {
			t.Fatalf("%+v: %v", m.Body, err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		for n := range b {
			if _, err := ParseMessage("p", "q", b[:n]); err == nil {
				t.Errorf("%d of %d bytes of %T were accepted", n, len(b), m.Body)
			}
		}
		if _, err := ParseMessage("p", "q", append(b, 0)); err == nil {
			t.Errorf("%T with a byte at its end was accepted", m.Body)
		}
	}
}

func TestMessagesThatNoMemberSendsAreRefused(t *testing.T) {
	runs := &Report{Runs: make([]Run, maxRuns+1)}
	for name, b := range map[string][]byte{
		"empty":           nil,
		"another format":  {2, bodyAck},
		"an unknown kind": {messageFormat, 99, 1, 1},
		"an unknown flag": {messageFormat, bodyProbe, 1, 1, 1, 1, 0xff},
		"no volume":       (&Message{To: ID{"q", 1}, Body: &Probe{}}).AppendTo(nil),
		"too many runs":   (&Message{From: ID{"p", 1}, Body: runs}).AppendTo(nil),
		"a position beyond": (&Message{From: ID{"p", 1},
			Body: &Frame{Position: 1<<64 - 1, Records: make([]Record, 1)}}).AppendTo(nil),
	} {
		if m, err := ParseMessage("p", "q", b); err == nil {
			t.Errorf("%s: accepted as %+v", name, m.Body)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	for _, m := range sampleMessages(&testing.T{}) {
		f.Add(m.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMessage("p", "q", b)
		if err != nil {
			return
		}
		again, err := ParseMessage("p", "q", m.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Errorf("(-first +again)\n%s", diff)
		}
	})
}

package history

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestReadsOfValuesThatMerge(t *testing.T) {
	for name, c := range map[string]struct {
		history string
		want    Kind
	}{
		"all adds are there":                   {"a add x=1@1.1 ; b add x=2@2.2 ; c get x=1@1.1+2@2.2", ""},
		"another session's add may be missing": {"a add x=1@1.1 ; b add x=2@2.2 ; c get x=2@2.2", ""},
		"an own add is missing":                {"a add x=1@1.1 ; b add x=2@2.2 ; a get x=2@2.2", IncompleteRead},
		"an own add is missing in nothing":     {"a add x=1@1.1 ; a get x=-", IncompleteRead},
		"a read loses what the one before had": {
			"a add x=1@1.1 ; b add x=2@2.2 ; c get x=1@1.1+2@2.2 ; c get x=2@2.2", IncompleteRead,
		},
		"an add follows one that is missing": {"a add x=1@1.1 ; b get x=1@1.1 ; b add x=2@2.2 ; c get x=2@2.2",
			IncompleteRead},
		"it follows one of another key": {
			"a add x=1@1.1 ; b get x=1@1.1 ; b put y=2@2.2 ; c get y=2 ; c get x=-", IncompleteRead,
		},
		"an mget lacks what its other key saw": {"a add x=1@1.1 ; b get x=1@1.1 ; b put y=2@2.2 ; c mget y=2 x=-",
			IncompleteRead},
		"a write twice":                         {"a add x=1@1.1 ; b get x=1@1.1+1@1.1", DoubledWrite},
		"a write that nobody made":              {"a add x=1@1.1 ; b get x=1@1.1+7@2.2", ThinAir},
		"a delete overwrites":                   {"a add x=1@1.1 ; a del x=@2.1 ; a get x=-", ""},
		"a delete overwrites what came before":  {"a add x=1@1.1 ; a del x=@2.1 ; a add x=3@3.1 ; a get x=3@3.1", ""},
		"a delete that is later than an add":    {"a add x=1@1.1 ; b del x=@2.2 ; a get x=-", ""},
		"a delete is too early for the add":     {"b del x=@1.2 ; a add x=2@2.1 ; a get x=-", IncompleteRead},
		"a delete that the read does not honor": {"a add x=1@1.1 ; a del x=@2.1 ; a get x=1@1.1", ReadYourWrites},
		"what it would overwrite is in the read": {"a add x=1@1.1 ; a add x=2@2.1 ; b del x=@3.2 ; a get x=2@2.1",
			IncompleteRead},
		"a put is what the adds were": {"a add x=1@1.1 ; a put x=2@2.1 ; a get x=2@2.1", ""},
		"final reads agree": {
			"a add x=1@1.1 ; b add x=2@2.2 ; c get x=1@1.1+2@2.2 final ; d get x=2@2.2+1@1.1 final", "",
		},
		"a final read lacks a write": {
			"a add x=1@1.1 ; b add x=2@2.2 ; c get x=1@1.1+2@2.2 final ; d get x=2@2.2 final", IncompleteRead,
		},
		"a tombstone is gone in one ring": {
			"a add x=1@1.1 ; a del x=@2.1 ; c get x=-@2.1 final ; d get x=- final", "",
		},
		"final reads of two deletes": {
			"a add x=1@1.1 ; a del x=@2.1 ; b del x=@2.2 ; c get x=-@2.1 final ; d get x=-@2.2 final", Diverged,
		},
		"final reads find a part and nothing": {
			"a add x=1@1.1 ; b del x=@2.2 ; c get x=1@1.1 final ; d get x=- final", Diverged,
		},
		"a write without a version":             {"a add x=1@1.1 ; a del x", Malformed},
		"an add of unknown outcome may be read": {"a add x=1 ? ; b get x=1@1.1", ""},
		"and is not lost again":                 {"a add x=1 ? ; b get x=1@1.1 ; b get x=-", IncompleteRead},
	} {
		t.Run(name, func(t *testing.T) {
			h := parse(t, c.history)
			r := Check(h, Options{})
			if (c.want == "") != r.OK() || c.want != "" && !r.Has(c.want) {
				t.Errorf("%v\nwant %q", r, c.want)
			}
			var b bytes.Buffer
			w := NewWriter(&b)
			for i := range h {
				if err := w.Write(&h[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if back, err := ReadAll(strings.NewReader(b.String())); err != nil || !reflect.DeepEqual(back, h) {
				t.Errorf("written and read: %v, %v", back, err)
			}
		})
	}
}

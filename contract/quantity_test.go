package contract

import "testing"

func TestBytesAreWrittenAsInKubernetes(t *testing.T) {
	for text, want := range map[string]Bytes{`5`: 5, `"5"`: 5, `"64Ki"`: 64 << 10, `"2Gi"`: 2 << 30,
		`"100M"`: 1e8, `0`: 0} {
		var b Bytes
		if err := b.UnmarshalJSON([]byte(text)); err != nil || b != want {
			t.Errorf("%s: %d, %v", text, b, err)
		}
	}
	for _, text := range []string{`-1`, `1.5`, `"Ki"`, `"1 Mi"`, `"9999999999Gi"`, `null`, `""`, `true`} {
		var b Bytes
		if err := b.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s was read as %d bytes", text, b)
		}
	}
}

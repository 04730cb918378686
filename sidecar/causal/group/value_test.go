package group

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sampleConfig() Config {
	p, q := ID{"p", 7}, ID{"q", 1 << 60}
	return Config{Group: 7, Epoch: 5, Members: []ID{p, q}, Primary: q, Nonce: Nonce{7, 2, 1}}
}

func TestAConfigurationSurvivesTheRegister(t *testing.T) {
	for _, change := range []func(*Config){func(*Config) {}, func(c *Config) { c.Replaced = []uint64{9, 1 << 60} }} {
		c := sampleConfig()
		change(&c)
		checkValue(t, c)
	}
}

func checkValue(t *testing.T, c Config) {
	t.Helper()
	b := c.AppendValue(nil)
	got, err := ParseValue(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for n := range b {
		if _, err := ParseValue(b[:n]); err == nil {
			t.Errorf("%d of %d bytes were accepted", n, len(b))
		}
	}
	if _, err := ParseValue(append(b, 0)); err == nil {
		t.Error("a byte after the value was accepted")
	}
}

func TestAValueThatIsNoConfigurationIsRefused(t *testing.T) {
	other := append([]byte{extendedValueFormat + 1}, new(sampleConfig()).AppendValue(nil)[1:]...)
	if _, err := ParseValue(other); err == nil || !strings.Contains(err.Error(), "start the version that wrote it") {
		t.Errorf("another format: %v", err)
	}
	if _, err := ParseValue(bytes.Repeat([]byte{valueFormat}, maxValueBytes+1)); err == nil ||
		!strings.Contains(err.Error(), "at most") {
		t.Errorf("a value that is too long: %v", err)
	}
	for what, change := range map[string]func(*Config){
		"group":           func(c *Config) { c.Group = 0 },
		"epoch":           func(c *Config) { c.Epoch = 0 },
		"nonce":           func(c *Config) { c.Nonce = Nonce{} },
		"primary":         func(c *Config) { c.Primary.Volume++ },
		"no members":      func(c *Config) { c.Members = nil },
		"member's volume": func(c *Config) { c.Members[0].Volume = 0 },
		"member's name":   func(c *Config) { c.Members[0].Name = "" },
		"one name twice":  func(c *Config) { c.Members[0].Name = c.Members[1].Name },
	} {
		c := sampleConfig()
		change(&c)
		if _, err := ParseValue(c.AppendValue(nil)); err == nil {
			t.Errorf("%s: it was accepted", what)
		}
	}
}

func FuzzParseValue(f *testing.F) {
	f.Add(new(sampleConfig()).AppendValue(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseValue(b)
		if err != nil {
			return
		}
		again, err := ParseValue(c.AppendValue(nil))
		if diff := cmp.Diff(c, again); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

package processes_test

import (
	"fmt"
	"strings"
	"testing"
)

// What is read of many keys at the coordinator of the data center is one message, which its link takes, or an error.
func TestReadsOfManyKeysAtTheHomeAreAnsweredOrRefused(t *testing.T) {
	d := deploy(t, oneRedis)
	c := d.client("a")
	names := func(n int, before string) (keys []string) {
		for i := range n {
			keys = append(keys, before+fmt.Sprint(i))
		}
		return keys
	}
	long := strings.Repeat("k", 65_000)
	must(t, c.Set(t.Context(), "1", "one", 0).Err())
	must(t, c.Set(t.Context(), long+"1", "long", 0).Err())
	for _, test := range []struct {
		what string
		keys []string
		want string // of the second key; "": an error
	}{
		{"4096 short keys", names(4096, ""), "one"},
		{"4097 keys", names(4097, ""), ""},
		{"200 long keys", names(200, long), "long"},
		{"400 long keys", names(400, long), ""},
	} {
		got, err := c.MGet(t.Context(), test.keys...).Result()
		switch {
		case test.want == "" && (err == nil || !strings.Contains(err.Error(), "split it")):
			t.Errorf("MGET of %s: %d values, %v", test.what, len(got), err)
		case test.want != "" && (err != nil || got[1] != test.want):
			t.Errorf("MGET of %s: %v", test.what, err)
		}
		if n, err := c.Exists(t.Context(), test.keys...).Result(); n != 1 || err != nil {
			t.Errorf("EXISTS of %s: %d, %v", test.what, n, err)
		}
	}
}

//go:build e2e

package drills_test

import (
	"fmt"
	"strings"
)

// client is the name of a pod with a Redis client.
const client = "client"

// redis runs a command in a data center.
func (u user) redis(dc string, args ...string) (string, error) {
	return u.Try("", append([]string{"exec", client, "--", "timeout", "10", "redis-cli", "-h", storeName + "-" + dc},
		args...)...)
}

// awaitWrite waits until a write in a data center is acknowledged.
func (u user) awaitWrite(dc, value string) {
	u.Helper()
	u.Await("a write in data center "+dc, func() string {
		out, err := u.redis(dc, "SET", "drill-"+dc, value)
		if err != nil || out != "OK" {
			return fmt.Sprintf("%s (%v)", out, err)
		}
		return ""
	})
}

// awaitRead waits until a data center returns what was written in the other one.
func (u user) awaitRead(dc, of, value string) {
	u.Helper()
	u.Await("data center "+dc+" to have what was written in "+of, func() string {
		out, err := u.redis(dc, "GET", "drill-"+of)
		if err != nil || out != value {
			return fmt.Sprintf("%s (%v), want %s", out, err, value)
		}
		return ""
	})
}

// awaitEqualSizes waits until both rings have the same number of keys.
func (u user) awaitEqualSizes() {
	u.Helper()
	u.Await("both rings to have the same number of keys", func() string {
		var sizes []string
		for _, dc := range []string{"north", "south"} {
			out, err := u.redis(dc, "DBSIZE")
			if err != nil {
				return out
			}
			sizes = append(sizes, out)
		}
		if sizes[0] != sizes[1] || sizes[0] == "0" {
			return strings.Join(sizes, " ")
		}
		return ""
	})
}

package processes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// hashes are written through sidecars of this version while coordinators and middlemen of an earlier one, which cannot
// read them, are upgraded.
type hashes struct {
	d      *deployment
	client *redis.Client
	fields int // that were acknowledged
	tried  int
}

func (d *deployment) hashesVia(sidecar string) *hashes {
	return &hashes{d: d, client: d.clientOf(sidecar)}
}

func (h *hashes) write(t *testing.T) error {
	t.Helper()
	h.tried++
	return h.client.HSet(t.Context(), "hash", fmt.Sprintf("field-%d", h.tried), "1").Err()
}

// check checks that hashes are refused while processes of the earlier version are left, and that strings are not; and
// that hashes are accepted afterwards.
func (h *hashes) check(t *testing.T, left []string) {
	t.Helper()
	if len(left) == 0 {
		eventually(t, "a hash to be written", func() error { return h.write(t) })
		h.fields++
		return
	}
	eventually(t, "a string to be written", func() error { return h.client.Set(t.Context(), "string", "1", 0).Err() })
	err := h.write(t)
	if err == nil {
		t.Errorf("a hash was accepted though %v are of the earlier version", left)
		return
	}
	if len(left) > 1 {
		return // the coordinator may be of that version, too
	}
	part := "of data center " + left[0][:1]
	eventually(t, "an error that names "+left[0], func() error {
		if err := h.write(t); err == nil || !strings.Contains(err.Error(), "finish the upgrade") ||
			!strings.Contains(err.Error(), part) {
			return fmt.Errorf("got %q", fmt.Sprint(err))
		}
		return nil
	})
}

// checkFound checks that what was acknowledged, and nothing that was refused, is read at a sidecar.
func (h *hashes) checkFound(t *testing.T, sidecar string) {
	t.Helper()
	c := h.d.clientOf(sidecar)
	eventually(t, "the hash at "+sidecar, func() error {
		all, err := c.HGetAll(t.Context(), "hash").Result()
		if err == nil && len(all) != h.fields {
			err = fmt.Errorf("it has %v, and %d fields were acknowledged", all, h.fields)
		}
		return err
	})
}

// checkUnreadable checks that a sidecar of the earlier version reads the hash with an error, and goes on.
func (h *hashes) checkUnreadable(t *testing.T, sidecar string) {
	t.Helper()
	c := h.d.clientOf(sidecar)
	eventually(t, "an error for the hash at "+sidecar, func() error {
		if err := c.Get(t.Context(), "hash").Err(); err == nil || !strings.Contains(err.Error(), "upgrade") {
			return fmt.Errorf("got %q", fmt.Sprint(err))
		}
		return nil
	})
	eventually(t, "a string at "+sidecar, func() error { return c.Get(t.Context(), "string").Err() })
}

// olderParts returns the coordinators and middlemen that are of the earlier version.
func (d *deployment) olderParts() (left []string) {
	for name, p := range d.procs {
		if p.program != "" && (strings.Contains(name, "coordinator") || strings.Contains(name, "middleman")) {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	return left
}

package member

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// modelDisk is the disk of a member, which is instantaneous.
type modelDisk struct {
	disk  [][]byte // encoded entries, from index first on
	first uint64
}

// image returns what the entries amount to.
func (d *modelDisk) image(t *testing.T) *group.Image {
	t.Helper()
	var image group.Image
	for i, b := range d.disk {
		e, err := group.ParseEntry(d.first+uint64(i), b)
		if err == nil {
			err = image.Apply(&e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := image.Check(); err != nil {
		t.Fatal(err)
	}
	return &image
}

func (d *modelDisk) write(entries []group.Entry) {
	for i := range entries {
		d.disk = append(d.disk, entries[i].AppendTo(nil))
	}
}

// truncate removes the entries before an index.
func (d *modelDisk) truncate(before uint64) {
	if before > d.first {
		d.disk, d.first = d.disk[before-d.first:], before
	}
}

// modelRegister is the register of a group, which is instantaneous.
type modelRegister struct {
	register group.Config
	away     bool
	full     bool // it answers, and takes no change
	// holds: the outcome of a swap is not told, and the swap is held.
	holds bool
	held  []group.RegisterOp
}

func (r *modelRegister) request(op group.RegisterOp) group.RegisterResult {
	if r.away {
		return group.RegisterResult{ID: op.ID, Outcome: group.Failed}
	}
	res := group.RegisterResult{ID: op.ID, Outcome: group.Done, Cluster: "c", Found: r.register.Epoch > 0,
		Config: r.register}
	if op.Swap && r.holds {
		r.held = append(r.held, op)
		res.Outcome = group.Unknown
		return res
	}
	if op.Swap && r.full {
		res.Outcome = group.Unknown
		return res
	}
	if op.Swap && !r.swap(op) {
		res.Outcome = group.Failed
	}
	return res
}

func (r *modelRegister) swap(op group.RegisterOp) bool {
	if op.Expect != r.register.Nonce {
		return false
	}
	r.register = op.Config
	return true
}

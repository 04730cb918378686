//go:build !race

package group

import "testing"

// The data of a record is copied once, from the log into the message.
func TestEncodingAFrameAllocatesOnce(t *testing.T) {
	f := &Frame{}
	for range 100 {
		f.Records = append(f.Records, Record{Stamp: Stamp{1 << 40, 1 << 40}, Data: make([]byte, 1000)})
	}
	m := Message{From: ID{"p", 1 << 60}, To: ID{"q", 1 << 60}, Body: f}
	if n := testing.AllocsPerRun(10, func() { _ = m.AppendTo(nil) }); n != 1 {
		t.Errorf("%v allocations", n)
	}
}

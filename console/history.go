package console

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
)

// frame is a snapshot as it is kept: compressed, about 2 KB for eight data centers, and what plots show of it.
type frame struct {
	atMs   int64
	packed []byte // JSON, gzip
	points []Point
}

// Point is what plots show of a data center at one moment; null is unknown.
type Point struct {
	Reads    *float64 `json:"reads"`
	Writes   *float64 `json:"writes"`
	Bound    *int     `json:"bound"`
	InFlight *int     `json:"inFlight"`
	CutAgeMs *int64   `json:"cutAgeMs"`
}

// newFrame packs a snapshot.
func newFrame(s *Snapshot) frame {
	f := frame{atMs: s.AtMs}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // fails only for an unknown level
	if err := json.NewEncoder(z).Encode(s); err != nil {
		panic(err) // unreachable: the types can always be encoded
	}
	_ = z.Close() // writing to a buffer does not fail
	f.packed = b.Bytes()
	for i := range s.DataCenters {
		dc := &s.DataCenters[i]
		p := Point{Bound: dc.Bound, InFlight: dc.InFlight, CutAgeMs: dc.CutAgeMs}
		if dc.Rates != nil {
			reads, writes := dc.Rates.Reads(), dc.Rates.Writes
			p.Reads, p.Writes = &reads, &writes
		}
		f.points = append(f.points, p)
	}
	return f
}

// unpack returns the snapshot as JSON in one line.
func (f frame) unpack() []byte {
	z, err := gzip.NewReader(bytes.NewReader(f.packed))
	if err != nil {
		panic(err) // unreachable: newFrame has packed it
	}
	b, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b)
}

// History is the plots of the last ten minutes.
type History struct {
	Frames []HistoryFrame `json:"frames"`
	Marks  []Mark         `json:"marks"`
}

// HistoryFrame is one moment, with the data centers in the order of the layout.
type HistoryFrame struct {
	AtMs   int64   `json:"atMs"`
	Points []Point `json:"points"`
}

func (r *Recorder) history() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := History{Marks: append([]Mark{}, r.marks...)}
	for _, f := range r.frames {
		h.Frames = append(h.Frames, HistoryFrame{f.atMs, f.points})
	}
	return h
}

package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// line is a record in a file.
type line struct {
	Key  string
	HLC  causal.HLC
	Data []byte
}

// fileSource reads pages from a file that has a record in each line. The cursor is the offset, and the life the size of
// the file: a file that has changed is another one.
type fileSource struct {
	path string
	life uint64
	Sender
}

// answer answers a request as a source that can continue anywhere.
func (f *fileSource) answer(t *testing.T, r Request, maxBytes int) (Page, bool) {
	t.Helper()
	data, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	if life := uint64(len(data)); life != f.life {
		f.life, f.Sender = life, Sender{}
	}
	if d := f.Asked(r); d == NewRun || d == UnknownRun {
		f.Begin(r.Run, f.life, r.At)
	}
	asked, wanted := f.Wanted()
	if !wanted || !f.Answered(asked) {
		return Page{}, false
	}
	p := asked.answer()
	p.Life, p.Last = f.life, true
	offset := 0
	if at := asked.At.After; at != "" {
		if _, err := fmt.Sscan(at, &offset); err != nil || offset > len(data) {
			p.Lost = true
			return p, true
		}
	}
	start := offset
	for offset < len(data) {
		n := bytes.IndexByte(data[offset:], '\n') + 1
		var l line
		if err := json.Unmarshal(data[offset:offset+n], &l); err != nil {
			t.Fatal(err)
		}
		p.Records = append(p.Records, causal.Moved{Key: l.Key, Record: causal.Record{
			Version: causal.Version{HLC: l.HLC, Origin: 1}, Value: causal.Value{Data: l.Data}}})
		if offset += n; offset-start >= maxBytes {
			break
		}
	}
	p.Next, p.End = asked.At.Follows(uint64(len(p.Records)), fmt.Sprint(offset)), offset == len(data)
	return p, true
}

func writeLines(t *testing.T, path string, records []causal.Moved) {
	t.Helper()
	var data []byte
	for _, r := range records {
		l, err := json.Marshal(line{Key: r.Key, HLC: r.Record.Version.HLC, Data: r.Record.Value.Data})
		if err != nil {
			t.Fatal(err)
		}
		data = append(append(data, l...), '\n')
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func manyRecords(n int, hlc causal.HLC) (records []causal.Moved) {
	for i := range n {
		records = append(records, causal.Moved{Key: fmt.Sprintf("k%03d", i), Record: record(hlc, "from the file")})
	}
	return records
}

// importer is a sink that others write to: what arrives joins with what is there. It remembers the place of the run
// together with the records, so that it continues there after a restart.
type importer struct {
	records store
	life    uint64
	at      Place
	run     uint64
	Receiver
}

func (i *importer) start() {
	i.run++
	if i.at == (Place{}) {
		i.at = First()
	}
	i.Receiver = ContinueReceiver(Config{Run: i.run, Repeat: repeat}, i.life, i.at)
}

func (i *importer) take(p Page) {
	switch i.Take(&p) {
	case Write:
		for _, m := range p.Records {
			has, found := i.records[m.Key]
			old := &has
			if !found {
				old = nil
			}
			if joined, effect := Arrive(nil, old, m.Record); effect == Writes {
				i.records[m.Key] = joined
			}
		}
		i.Written()
		i.life, i.at = i.Life(), i.At() // in the same change
	case StartOver: // what is there may stay: all of it comes again
		i.life, i.at = 0, Place{}
		i.Cleared()
	case Ignore:
	}
}

// A restart of the sink costs nothing that it has, one of the source nothing at all.
func TestAFileIsImportedAndTheImportContinuesWhereItWas(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		path := filepath.Join(t.TempDir(), "records")
		records := manyRecords(100, 20)
		writeLines(t, path, records)
		source, sink := &fileSource{path: path}, &importer{records: store{
			"k001": record(30, "written since"), "k002": record(10, "old"), "other": record(5, "of somebody else")}}
		sink.start()
		now, pages := causal.Now{Mono: 1}, 0
		for step := 0; !sink.IsDone(); step++ {
			if step > 1000 {
				t.Fatalf("seed %d: it does not end: %+v", seed, sink.Receiver)
			}
			now.Mono += int64(repeat)
			if req, _, ok := sink.Ask(now); ok {
				if p, ok := source.answer(t, req, 300); ok && rng.IntN(5) > 0 {
					pages++
					sink.take(p)
				}
			}
			switch rng.IntN(10) {
			case 0:
				sink.start()
			case 1:
				source = &fileSource{path: path}
			}
		}
		if pages > 25 { // of about four records each
			t.Errorf("seed %d: %d pages were taken, so it has begun again", seed, pages)
		}
		for _, r := range records {
			want := r.Record.Version.HLC
			if r.Key == "k001" {
				want = 30
			}
			if got := sink.records[r.Key].Version.HLC; got != want {
				t.Errorf("seed %d: %s is of %d, want %d", seed, r.Key, got, want)
			}
		}
		if len(sink.records) != 101 {
			t.Errorf("seed %d: %d records", seed, len(sink.records))
		}
	}
}

func TestAnImportStartsOverWhenItsFileHasChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	writeLines(t, path, manyRecords(20, 20))
	source, sink, now := &fileSource{path: path}, &importer{records: store{}}, causal.Now{Mono: 1}
	sink.start()
	starts := 0
	for step := 0; !sink.IsDone() && step < 200; step++ {
		if step == 3 {
			writeLines(t, path, manyRecords(30, 40))
		}
		now.Mono += int64(repeat)
		if req, _, ok := sink.Ask(now); ok {
			if req.At == First() {
				starts++
			}
			if p, ok := source.answer(t, req, 300); ok {
				sink.take(p)
			}
		}
	}
	for _, r := range manyRecords(30, 40) {
		if got := sink.records[r.Key].Version.HLC; got != 40 {
			t.Errorf("%s is of %d", r.Key, got)
		}
	}
	if starts != 2 {
		t.Errorf("it has begun %d times", starts)
	}
}

// A backup: the source is what a shard has, and the sink an object that is written page by page, with the place in it.
// What a run has brought counts when the manifest is written, at the end.
func TestASliceIsWrittenToAnObject(t *testing.T) {
	records := manyRecords(50, 20)
	receiver, sender := NewReceiver(Config{Run: 1, Repeat: repeat}), Sender{}
	var object bytes.Buffer
	var manifest []string
	now, runs := causal.Now{Mono: 1}, uint64(1)
	for step := 0; !receiver.IsDone(); step++ {
		if step > 100 {
			t.Fatalf("it does not end: %+v", receiver)
		}
		now.Mono += int64(repeat)
		if receiver.IsClearing() {
			object.Reset()
			manifest = nil
			receiver.Cleared()
		}
		if step == 5 { // the process restarts: the object is begun again
			runs++
			receiver = NewReceiver(Config{Run: runs, Repeat: repeat})
			continue
		}
		req, _, ok := receiver.Ask(now)
		if !ok {
			continue
		}
		if sender.Asked(req) == NewRun {
			sender.Begin(req.Run, 1, First())
		}
		asked, _ := sender.Wanted()
		sender.Answered(asked)
		p := asked.answer()
		rest := records[asked.At.Seq:]
		n := Fit(rest, 7*sizeOf(&records[0]))
		p.Records, p.Next, p.End, p.Last = rest[:n], asked.At.Follows(uint64(n), ""), n == len(rest), true
		if receiver.Take(&p) == Write {
			for _, r := range p.Records {
				fmt.Fprintln(&object, r.Key)
			}
			manifest = append(manifest, fmt.Sprintf("%d+%d", p.At.Seq, len(p.Records)))
			receiver.Written()
		}
	}
	var want bytes.Buffer
	for _, r := range records {
		fmt.Fprintln(&want, r.Key)
	}
	if object.String() != want.String() || !slices.Contains(manifest, "49+1") || len(manifest) != 8 {
		t.Errorf("pages %v, %d bytes, want %d", manifest, object.Len(), want.Len())
	}
}

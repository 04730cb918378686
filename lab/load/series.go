package load

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// outcome is how an operation ended.
type outcome uint8

const (
	succeeded outcome = iota
	failed
	unknown
)

// series writes a line of CSV for every second of the load: the operations answered in it, and the latencies of the
// successful ones. It keeps only the current second in memory.
type series struct {
	out    *bufio.Writer
	start  time.Duration
	second int64
	counts [3]int64
	h      *hdrhistogram.Histogram
	err    error // of the first failed write
}

func newSeries(out io.Writer, start time.Duration) *series {
	s := &series{out: bufio.NewWriter(out), start: start, h: newHistogram()}
	s.print("second,ops,failed,unknown,p50_ms,p99_ms,max_ms\n")
	return s
}

func (s *series) print(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil && s.err == nil {
		s.err = err
	}
}

// take counts an operation that was answered at a time. Connections report in any order: a late report counts for the
// current second.
func (s *series) take(at time.Duration, o outcome, latency time.Duration) {
	for second := int64((at - s.start) / time.Second); s.second < second; {
		s.flush()
	}
	s.counts[o]++
	if o == succeeded {
		record(s.h, latency)
	}
}

// flush writes the current second.
func (s *series) flush() {
	ms := func(micros int64) float64 { return float64(micros) / 1e3 }
	s.print("%d,%d,%d,%d,%.3f,%.3f,%.3f\n", s.second, s.counts[succeeded], s.counts[failed], s.counts[unknown],
		ms(s.h.ValueAtQuantile(50)),
		ms(s.h.ValueAtQuantile(99)), ms(s.h.Max()))
	s.second++
	s.counts = [3]int64{}
	s.h.Reset()
}

// close writes the last second, which is usually incomplete.
func (s *series) close() error {
	s.flush()
	if err := s.out.Flush(); err != nil && s.err == nil {
		s.err = err
	}
	if s.err != nil {
		return fmt.Errorf("write series: %w", s.err)
	}
	return nil
}

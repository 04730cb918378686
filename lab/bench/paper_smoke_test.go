package bench_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/bench"
)

// tinyPaper is every section, as small as it gets.
func tinyPaper(t *testing.T) *bench.PaperOptions {
	o := bench.FullPaper()
	o.Setup, o.Topology = setup(t, program(t)), smallTopology(t)
	o.Rounds, o.Length, o.Lead, o.Clients, o.Think, o.Keys, o.ValueBytes = 2, 80*time.Millisecond, 10*time.Millisecond,
		6, time.Millisecond, 50, 50
	o.Mixes, o.LoadMixes, o.MaxClients = []float64{0.95, 0.5}, []float64{0.95, 0.5}, 12
	o.Sizes, o.Sessions, o.Centers, o.KeyCounts = []int{200, 1024}, []int{1, 3}, []int{2, 6}, []int{40}
	o.Congestion, o.CongestFor, o.CongestMost, o.Around, o.Burst = []int{5,
		10}, 300*time.Millisecond, 400*time.Millisecond, 300*time.Millisecond, 10
	return o
}

func TestPaperMeasuresEverySection(t *testing.T) {
	o := tinyPaper(t)
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, c := range res.Cells {
		seen[c.Section]++
		checkCell(t, c)
	}
	for section, want := range map[string]int{"throughput": 7, "mixes": 8, "load": 16, "ablation": 5, "sessions": 2,
		"centers": 4,
		"sizes":   4, "keys": 2} {
		if seen[section] != want {
			t.Errorf("section %s has %d cells, want %d", section, seen[section], want)
		}
	}
	if len(res.Saturation) != 6 || len(res.Congestion) != 6 || len(res.Bursts) != 3 {
		t.Errorf("%d schemes saturated, %d congested, %d bursts", len(res.Saturation), len(res.Congestion),
			len(res.Bursts))
	}
	for _, c := range res.Congestion {
		if len(c.Series) != 10 || c.Kept.Mean <= 0 || len(c.KeptPerDC) != 3 || c.Failed != 0 {
			t.Errorf("%s under %d ms: %+v", c.Scheme, c.AddMs, c)
		}
	}
	for _, b := range res.Bursts {
		if b.VisibleMs.Min <= 0 || b.SingleVisibleMs.Min <= 0 || b.CompletedPerSecond.Min <= 0 {
			t.Errorf("burst of %s: %+v", b.Scheme, b)
		}
	}
	says(t, res, "1.43", "77 %", "COPS-Ideal", "round trips: 100")
	carries(t, res)
	checkReport(t, res)
}

// checkCell checks what must hold whatever the machine does.
func checkCell(t *testing.T, c *bench.Cell) {
	t.Helper()
	if c.Throughput.Mean <= 0 || c.Throughput.Rounds != 2 || c.Get.P99Ms < c.Get.P50Ms || c.Failed != 0 {
		t.Errorf("%s, %s, %s: throughput %+v, reads %+v, %d failed (%s)", c.Section, c.Scheme, c.Label,
			c.Throughput, c.Get,
			c.Failed, c.Example)
	}
	if sum := c.Own + c.Copies + c.Home + c.Cache + c.Local + c.Remote; sum < 0.999 || sum > 1.001 {
		t.Errorf("%s, %s: the sources of reads sum up to %v", c.Section, c.Scheme, sum)
	}
	if c.WANBytes < c.WANMetadataBytes || c.WANMetadataBytes <= 0 || c.ResidentMiB.Min <= 0 {
		t.Errorf("%s, %s: %v bytes an operation, %v of them metadata; %v MiB", c.Section, c.Scheme, c.WANBytes,
			c.WANMetadataBytes, c.ResidentMiB)
	}
	if strings.HasPrefix(c.Scheme, "COPS") && c.Cache != 0 {
		t.Errorf("%s runs without caches, and %v of its reads were hits", c.Scheme, c.Cache)
	}
	if c.Scheme == "COPS-Ideal" && c.Remote != 0 {
		t.Errorf("COPS-Ideal has everything everywhere, and %v of its reads went elsewhere", c.Remote)
	}
}

func checkReport(t *testing.T, res *bench.Paper) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "report")
	if err := res.Report().Write(dir); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pictures, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil || len(pictures) < 15 {
		t.Errorf("%d pictures, %v", len(pictures), err)
	}
	for _, name := range pictures {
		svg, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(page, []byte("("+filepath.Base(name)+")")) {
			t.Errorf("the page does not show %s", name)
		}
		if bytes.Contains(svg, []byte("no data")) {
			t.Errorf("%s is empty", name)
		}
		d := xml.NewDecoder(bytes.NewReader(svg))
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

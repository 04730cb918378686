package bench

import (
	"testing"
	"time"
)

func TestEstimatesStayBelowHalfAnHourForTheFullAndMinutesForTheQuickEvaluation(t *testing.T) {
	for _, c := range []struct {
		o    PaperOptions
		most time.Duration
	}{{FullPaper(), 25 * time.Minute}, {QuickPaper(), 6 * time.Minute}} {
		f, err := newFleet(&c.o, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		p := &paperRun{o: &c.o, fleet: f, res: &Paper{}, planned: map[string]bool{}}
		sum := time.Duration(0)
		for _, s := range p.sections() {
			t.Logf("%-12s %s", s.name, s.estimate.Round(time.Second))
			sum += s.estimate
		}
		if sum > c.most {
			t.Errorf("%d sections are planned for %s, more than %s", len(c.o.Sections), sum, c.most)
		}
	}
}

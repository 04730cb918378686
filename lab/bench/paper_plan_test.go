package bench

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestEstimatesStayBelowHalfAnHourForTheFullAndMinutesForTheQuickEvaluation(t *testing.T) {
	for args, most := range map[string]time.Duration{"--quick=false": 25 * time.Minute, "--quick": 6 * time.Minute} {
		o, fs := FullPaper(), pflag.NewFlagSet("paper", pflag.ContinueOnError)
		e := o.experiment()
		e.Declare(fs)
		if err := fs.Parse([]string{args}); err != nil {
			t.Fatal(err)
		}
		if err := e.prepare(nil); err != nil {
			t.Fatal(err)
		}
		f, err := newFleet(o, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		p := &paperRun{o: o, fleet: f, res: &Paper{}, planned: map[string]bool{}}
		sum := time.Duration(0)
		for _, s := range p.sections() {
			t.Logf("%-12s %s", s.name, s.estimate.Round(time.Second))
			sum += s.estimate
		}
		if sum > most {
			t.Errorf("%d sections are planned for %s, more than %s", len(o.Sections), sum, most)
		}
	}
}

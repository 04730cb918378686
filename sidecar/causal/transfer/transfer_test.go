package transfer

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func record(hlc causal.HLC, data string) causal.Record {
	return causal.Record{Version: causal.Version{HLC: hlc, Origin: 1}, Value: causal.Value{Data: []byte(data)}}
}

func TestAPageHasWhatFitsAndAtLeastOneRecord(t *testing.T) {
	of := func(sizes ...int) (records []causal.Moved) {
		for _, n := range sizes {
			records = append(records, causal.Moved{Record: record(1, string(make([]byte, n)))})
		}
		return records
	}
	overhead := sizeOf(&causal.Moved{Record: record(1, "")})
	for _, c := range []struct {
		records []causal.Moved
		want    int
	}{{nil, 0}, {of(10), 1}, {of(500), 1}, {of(500, 1), 1}, {of(40, 30), 2}, {of(40, 60, 300), 2}, {of(99, 500), 1}} {
		if got := Fit(c.records, 100+len(c.records)*overhead); got != c.want {
			t.Errorf("%d of %d records fit, want %d", got, len(c.records), c.want)
		}
	}
}

func TestAnArrivalJoinsWithWhatIsThere(t *testing.T) {
	old, recent, gone := record(10, "old"), record(20, "new"), causal.Missing(15)
	for name, c := range map[string]struct {
		has     *causal.Record
		arrived causal.Record
		want    Effect
	}{
		"something where nothing is":            {nil, old, Writes},
		"a newer value":                         {&old, recent, Writes},
		"an older value":                        {&recent, old, Keeps},
		"the same value":                        {&old, old, Keeps},
		"nothing where nothing is":              {nil, gone, Keeps},
		"nothing, and the value was dropped":    {&old, gone, Removes},
		"nothing, and the value came later":     {&recent, gone, Keeps},
		"nothing, of a source without horizon":  {&old, causal.Missing(0), Keeps},
		"a tombstone":                           {&old, causal.Record{Version: recent.Version, Value: gone.Value}, Writes},
		"a value, of which the tombstone stays": {&causal.Record{Version: recent.Version, Value: gone.Value}, old, Keeps},
	} {
		got, effect := Arrive(nil, c.has, c.arrived)
		if effect != c.want || effect == Writes && got.Version != c.arrived.Version {
			t.Errorf("%s: effect %d, want %d, of %+v", name, effect, c.want, got)
		}
	}
}

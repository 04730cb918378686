package causal

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// pipeline is a session with puts under way.
type pipeline struct {
	t *testing.T
	s *Sidecar
}

// newPipeline issues n puts without waiting for answers, in a data centre with so many coordinators.
func newPipeline(t *testing.T, coordinators, n int) (*pipeline, []Message) {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: coordinators, Shards: 1}}, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &pipeline{t, NewSidecar(DefaultSidecarConfig(topo, topology.Node{Part: topology.Sidecar, Index: 1}))}
	p.s.Open(1)
	for i := range n {
		p.s.Do(Now{}, Op{ID: uint64(i + 1), Session: 1, Kind: OpPut, Key: "k", Value: Value{Data: []byte{byte('a' + i)}}})
	}
	return p, p.puts()
}

// puts returns the puts that were sent since.
func (p *pipeline) puts() (puts []Message) {
	for _, m := range p.s.Take(nil) {
		if m.Kind == KindPut {
			puts = append(puts, m)
		}
	}
	return puts
}

// answer answers a put.
func (p *pipeline) answer(put Message, err ErrCode, hlc HLC) {
	m := Message{Kind: KindPutReply, From: put.To, To: put.From, ID: put.ID, Err: err}
	if err == OK {
		m.Record.Version = Version{HLC: hlc, Origin: topology.Origin(put.To.Index + 1)}
	}
	p.s.Step(Now{}, &m)
}

// outcomes returns the answers to the operations, by their ids.
func (p *pipeline) outcomes() map[uint64]ErrCode {
	all := map[uint64]ErrCode{}
	for _, r := range p.s.Results(nil) {
		all[r.ID] = r.Err
	}
	return all
}

func values(puts []Message) (all string) {
	for _, m := range puts {
		all += string(m.Record.Value.Data)
	}
	return all
}

func TestRefusedPutsGoToAnotherCoordinatorInTheirOrder(t *testing.T) {
	p, first := newPipeline(t, 2, 3)
	for _, i := range []int{1, 2, 0} { // whatever the order of the answers
		if more := p.puts(); len(more) > 0 {
			t.Fatalf("%q went elsewhere while it was not known what became of the others", values(more))
		}
		p.answer(first[i], ErrUnavailable, 0)
	}
	again := p.puts()
	if values(again) != "abc" {
		t.Fatalf("%q went elsewhere; want abc", values(again))
	}
	for i, m := range again {
		if m.To == first[0].To || m.Seq <= first[2].Seq {
			t.Errorf("%s went to %v with number %d; it was refused by %v, and the last number was %d", m.Record.Value.Data, m.To, m.Seq, first[0].To, first[2].Seq)
		}
		p.answer(m, OK, HLC(i+1))
	}
	if d := cmp.Diff(map[uint64]ErrCode{1: OK, 2: OK, 3: OK}, p.outcomes()); d != "" {
		t.Error(d)
	}
}

// The coordinator was let in, or went on, in between. Sent again, what was refused would come after what was put later.
func TestAPutThatWasRefusedBeforeALaterOneWasTakenFails(t *testing.T) {
	p, first := newPipeline(t, 2, 3)
	p.answer(first[0], ErrUnavailable, 0)
	p.answer(first[2], ErrUnavailable, 0)
	p.answer(first[1], OK, 5)
	again := p.puts()
	if values(again) != "c" {
		t.Fatalf("%q went elsewhere; want c alone", values(again))
	}
	p.answer(again[0], OK, 6)
	if d := cmp.Diff(map[uint64]ErrCode{1: ErrUnavailable, 2: OK, 3: OK}, p.outcomes()); d != "" {
		t.Error(d)
	}
}

func TestPutsThatNobodyTakesFail(t *testing.T) {
	p, first := newPipeline(t, 1, 2)
	p.answer(first[0], ErrUnavailable, 0)
	p.answer(first[1], ErrUnavailable, 0)
	if again := p.puts(); len(again) > 0 {
		t.Errorf("%q went to %v, which has refused", values(again), again[0].To)
	}
	if d := cmp.Diff(map[uint64]ErrCode{1: ErrUnavailable, 2: ErrUnavailable}, p.outcomes()); d != "" {
		t.Error(d)
	}
}

func TestPutsToACoordinatorThatWasNeverReachedGoElsewhere(t *testing.T) {
	p, first := newPipeline(t, 2, 2)
	p.s.Unreached(Now{}, first[0].To)
	again := p.puts()
	if values(again) != "ab" || again[0].To == first[0].To {
		t.Fatalf("%q went elsewhere: %+v", values(again), again)
	}
	p.answer(first[0], OK, 9) // nobody can have sent that
	for i, m := range again {
		p.answer(m, OK, HLC(i+1))
	}
	if d := cmp.Diff(map[uint64]ErrCode{1: OK, 2: OK}, p.outcomes()); d != "" {
		t.Error(d)
	}
}

func TestACoordinatorIsUsedAgainAsSoonAsItCanBeReached(t *testing.T) {
	p, first := newPipeline(t, 2, 1)
	node := first[0].To
	p.s.LinkDown(Now{}, node)
	put := func(id uint64) topology.Node {
		p.s.Do(Now{}, Op{ID: id, Session: 1, Kind: OpPut, Key: "k"})
		sent := p.puts()
		p.answer(sent[0], OK, HLC(id))
		return sent[0].To
	}
	if to := put(2); to == node {
		t.Errorf("a put went to %v, whose link is down", to)
	}
	p.s.LinkUp(node)
	if to := put(3); to != node {
		t.Errorf("a put went to %v, though %v can be reached again", to, node)
	}
}

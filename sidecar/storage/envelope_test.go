package storage

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

func sampleRecords() []causal.Record {
	version := causal.Version{HLC: causal.HLCAt(1_700_000_000_000) + 7, Origin: 3}
	return []causal.Record{
		{},
		causal.Missing(0),
		{Version: version, Value: causal.Value{Data: []byte("hello")}},
		{Version: version, Value: causal.Value{Data: []byte{}}},
		{Version: version, Value: causal.Value{Tombstone: true}},
		{Version: version, Value: causal.Value{Tombstone: true, ExpireAtMs: 5}},
		{Version: version, Value: causal.Value{Data: []byte("x"), ExpireAtMs: 1_700_000_000_001}},
		{Version: causal.Version{HLC: math.MaxUint64, Origin: math.MaxUint32}, Value: causal.Value{Data: []byte{0}, ExpireAtMs: math.MinInt64}},
	}
}

func TestRecordsSurviveEncoding(t *testing.T) {
	for _, rec := range sampleRecords() {
		b := AppendRecord(nil, rec)
		if len(b) != EncodedLen(rec) || len(b) > len(rec.Value.Data)+MaxEnvelopeOverhead {
			t.Errorf("%+v: %d bytes, EncodedLen says %d", rec, len(b), EncodedLen(rec))
		}
		got, err := DecodeRecord("k", b)
		if err != nil {
			t.Fatalf("%+v: %v", rec, err)
		}
		if diff := cmp.Diff(rec, got, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRandomRecordsSurviveEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := causal.Record{
			Version: causal.Version{HLC: causal.HLC(rapid.Uint64().Draw(t, "hlc")), Origin: topology.Origin(rapid.Uint32().Draw(t, "origin"))},
			Value:   causal.Value{ExpireAtMs: rapid.Int64().Draw(t, "deadline"), Tombstone: rapid.Bool().Draw(t, "tombstone")},
		}
		if !rec.Value.Tombstone {
			rec.Value.Data = rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		}
		got, err := DecodeRecord("k", AppendRecord(nil, rec))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rec, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestAppendRecordKeepsTheDestination(t *testing.T) {
	rec := sampleRecords()[2]
	got := AppendRecord([]byte("before"), rec)
	if want := append([]byte("before"), AppendRecord(nil, rec)...); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTombstonesAreEncodedWithoutData(t *testing.T) {
	rec, err := DecodeRecord("k", AppendRecord(nil, causal.Record{Value: causal.Value{Data: []byte("gone"), Tombstone: true}}))
	if err != nil || rec.Value.Data != nil || !rec.Value.Tombstone {
		t.Errorf("got %+v, %v", rec, err)
	}
}

func TestDecodeDetectsEveryFlippedHeaderBit(t *testing.T) {
	for _, rec := range sampleRecords() {
		whole := AppendRecord(nil, rec)
		for bit := range (len(whole) - len(rec.Value.Data)) * 8 {
			damaged := bytes.Clone(whole)
			damaged[bit/8] ^= 1 << (bit % 8)
			if _, err := DecodeRecord("k", damaged); !errors.Is(err, ErrForeign) {
				t.Errorf("%+v with bit %d flipped: got %v, want ErrForeign", rec, bit, err)
			}
		}
	}
}

func TestForeignErrorHasKeyAndData(t *testing.T) {
	for _, b := range []string{"", "x", "a plain Redis string", `{"json":true}`, string(bytes.Repeat([]byte{envelopeMagic}, 64))} {
		_, err := DecodeRecord("cart:7", []byte(b))
		var foreign *ForeignError
		if !errors.Is(err, ErrForeign) || !errors.As(err, &foreign) || foreign.Key != "cart:7" || string(foreign.Data) != b {
			t.Errorf("%q: got %v", b, err)
		}
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	rec := sampleRecords()[6]
	buf := make([]byte, 0, EncodedLen(rec))
	allocs := testing.AllocsPerRun(100, func() {
		b := AppendRecord(buf[:0], rec)
		if _, err := DecodeRecord("k", b); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

// FuzzDecode checks that any bytes that decode are the one encoding of the result, and that decoding stays within bounds.
func FuzzDecode(f *testing.F) {
	for _, rec := range sampleRecords() {
		f.Add(AppendRecord(nil, rec))
	}
	f.Add([]byte("foreign"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := DecodeRecord("k", b)
		if err != nil {
			if !errors.Is(err, ErrForeign) {
				t.Fatalf("got %v, want ErrForeign", err)
			}
			return
		}
		if again := AppendRecord(nil, rec); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, rec, again)
		}
	})
}

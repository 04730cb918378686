package storage

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
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
		{Version: version, Value: causal.Value{Data: []byte("merges"), Type: 7}},
		{Version: version, Value: causal.Value{Data: []byte{}, ExpireAtMs: 5, Type: 255}},
		{Version: version, Value: causal.Value{Data: []byte("x"), ExpireAtMs: 1_700_000_000_001}},
		{Version: causal.Version{HLC: math.MaxUint64, Origin: math.MaxUint32},
			Value: causal.Value{Data: []byte{0}, ExpireAtMs: math.MinInt64}},
	}
}

func TestRecordsSurviveEncoding(t *testing.T) {
	for _, rec := range sampleRecords() {
		b := AppendRecord(nil, "k", rec)
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
			Version: causal.Version{HLC: causal.HLC(rapid.Uint64().Draw(t, "hlc")),
				Origin: topology.Origin(rapid.Uint32().Draw(t, "origin"))},
			Value: causal.Value{ExpireAtMs: rapid.Int64().Draw(t, "deadline"),
				Tombstone: rapid.Bool().Draw(t, "tombstone"),
				Type:      causal.TypeID(rapid.Uint8().Draw(t, "type"))},
		}
		if !rec.Value.Tombstone {
			rec.Value.Data = rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		}
		got, err := DecodeRecord("k", AppendRecord(nil, "k", rec))
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
	got := AppendRecord([]byte("before"), "k", rec)
	if want := append([]byte("before"), AppendRecord(nil, "k", rec)...); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTombstonesAreEncodedWithoutData(t *testing.T) {
	rec, err := DecodeRecord("k", AppendRecord(nil, "k",
		causal.Record{Value: causal.Value{Data: []byte("gone"), Tombstone: true}}))
	if err != nil || rec.Value.Data != nil || !rec.Value.Tombstone {
		t.Errorf("got %+v, %v", rec, err)
	}
}

func TestDecodeDetectsEveryFlippedBit(t *testing.T) {
	for _, rec := range sampleRecords() {
		whole := AppendRecord(nil, "k", rec)
		for bit := range len(whole) * 8 {
			damaged := bytes.Clone(whole)
			damaged[bit/8] ^= 1 << (bit % 8)
			if _, err := DecodeRecord("k", damaged); !isDamaged(err) {
				t.Errorf("%+v with bit %d flipped: got %v, want a DamagedError", rec, bit, err)
			}
		}
	}
}

func TestDecodeDetectsEveryCut(t *testing.T) {
	for _, rec := range sampleRecords() {
		whole := AppendRecord(nil, "k", rec)
		for n := 2; n < len(whole); n++ {
			if _, err := DecodeRecord("k", whole[:n]); !isDamaged(err) {
				t.Errorf("%+v cut to %d bytes: got %v, want a DamagedError", rec, n, err)
			}
		}
	}
}

func TestDecodeDetectsARecordOfAnotherKey(t *testing.T) {
	for _, rec := range sampleRecords() {
		if got, err := DecodeRecord("j", AppendRecord(nil, "k", rec)); !isDamaged(err) {
			t.Errorf("%+v: got %+v, %v, want a DamagedError", rec, got, err)
		}
	}
}

func isDamaged(err error) bool {
	damaged, ok := errors.AsType[*DamagedError](err)
	return ok && errors.Is(err, ErrDataLost) && !errors.Is(err, ErrForeign) && damaged.Key != "" && damaged.Reason != ""
}

// appendHeadSum appends a record in the envelope of format 1, as earlier versions wrote it.
func appendHeadSum(dst []byte, rec causal.Record) []byte {
	start := len(dst)
	whole := AppendRecord(nil, "", rec)
	end := len(whole) - checksumLen
	header := end
	if !rec.Value.Tombstone {
		header -= len(rec.Value.Data)
	}
	dst = append(dst, whole[:header]...)
	dst[start+1] = headSumFormat
	dst = binary.BigEndian.AppendUint16(dst, uint16(xxhash.Sum64(dst[start:])))
	return append(dst, whole[header:end]...)
}

func TestRecordsOfEarlierVersionsAreRead(t *testing.T) {
	// As an earlier version has written them.
	for text, want := range map[string]causal.Record{
		"c50100018bcfe56800000700000003ab7b68656c6c6f": sampleRecords()[2],
		"c50101018bcfe56800000700000003c1c9":           sampleRecords()[4],
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendHeadSum(nil, want); !bytes.Equal(got, b) {
			t.Errorf("%+v: the test writes %x, and earlier versions wrote %x", want, got, b)
		}
	}
	for _, rec := range sampleRecords() {
		b := appendHeadSum(nil, rec)
		got, err := DecodeRecord("any", b)
		if err != nil {
			t.Fatalf("%+v: %v", rec, err)
		}
		if diff := cmp.Diff(rec, got, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		for bit := 16; bit < (len(b)-len(rec.Value.Data))*8; bit++ { // without magic and format
			damaged := bytes.Clone(b)
			damaged[bit/8] ^= 1 << (bit % 8)
			if _, err := DecodeRecord("any", damaged); !isDamaged(err) {
				t.Errorf("%+v in format 1 with bit %d flipped: got %v, want a DamagedError", rec, bit, err)
			}
		}
	}
}

func TestForeignErrorHasKeyAndData(t *testing.T) {
	for _, b := range []string{"", "x", "a plain Redis string", `{"json":true}`,
		string(bytes.Repeat([]byte{envelopeMagic}, 64))} {
		_, err := DecodeRecord("cart:7", []byte(b))
		var foreign *ForeignError
		if !errors.Is(err, ErrForeign) || !errors.As(err, &foreign) || foreign.Key != "cart:7" ||
			string(foreign.Data) != b {
			t.Errorf("%q: got %v", b, err)
		}
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	rec := sampleRecords()[6]
	buf := make([]byte, 0, EncodedLen(rec))
	allocs := testing.AllocsPerRun(100, func() {
		b := AppendRecord(buf[:0], "k", rec)
		if _, err := DecodeRecord("k", b); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

// FuzzDecode checks that any bytes that decode are the one encoding of the result, and that decoding stays within
// bounds.
func FuzzDecode(f *testing.F) {
	for _, rec := range sampleRecords() {
		f.Add(AppendRecord(nil, "k", rec))
	}
	f.Add(appendHeadSum(nil, sampleRecords()[2]))
	f.Add([]byte("foreign"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := DecodeRecord("k", b)
		if err != nil {
			if !errors.Is(err, ErrForeign) && !isDamaged(err) {
				t.Fatalf("got %v, want ErrForeign or a DamagedError", err)
			}
			return
		}
		again := AppendRecord(nil, "k", rec)
		if b[1] == headSumFormat {
			again = appendHeadSum(nil, rec)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, rec, again)
		}
	})
}

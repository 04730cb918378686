package resp

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// What is added to a missing key and removed again, in one pipeline or transaction, overwrites nothing that another
// data center adds at the same time.
func TestWhatIsAddedAndRemovedTogetherOverwritesNothing(t *testing.T) {
	for name, commands := range map[string][][]string{
		"pipeline": {{"HSET", "k", "f", "1"}, {"HDEL", "k", "f"}},
		"list":     {{"RPUSH", "k", "a", "b"}, {"LPUSH", "k", "c"}, {"LTRIM", "k", "1", "1"}, {"LPOP", "k"}},
		"EXEC":     {{"MULTI"}, {"SADD", "k", "f"}, {"SREM", "k", "f"}, {"EXEC"}},
		"expired":  {{"MULTI"}, {"SADD", "k", "f"}, {"EXPIRE", "k", "0"}, {"EXEC"}},
		"moved":    {{"MULTI"}, {"SADD", "k", "f"}, {"SMOVE", "k", "l", "f"}, {"RENAME", "l", "k"}, {"DEL", "k"}, {"EXEC"}},
		"string":   {{"SET", "k", "s"}, {"MULTI"}, {"DEL", "k"}, {"SADD", "k", "f"}, {"SREM", "k", "f"}, {"EXEC"}},
	} {
		for _, exact := range []bool{false, true} {
			store := newMemory()
			store.exact = exact
			_, address := serve(t, Options{Backend: store})
			p := dial(t, address)
			var batch []byte
			for _, args := range commands {
				batch = append(batch, frameOf(args...)...)
			}
			p.send(batch)
			for range commands {
				p.reply()
			}
			if got := p.do("EXISTS", "k"); got != ":0\r\n" {
				t.Errorf("%s%s: EXISTS answers %q", name, exactName(exact), got)
			}
			c := value.ChangeOf(causal.Record{})
			c.Add(value.Hash, "g", "elsewhere")
			elsewhere := causal.Record{Version: causal.Version{HLC: 1, Origin: 17}, Value: c.Value()}
			left := types.Join(store.record("k"), elsewhere)
			h := value.CollectionOf(left.Value)
			if _, has := h.Get("g"); !has && name != "string" {
				t.Errorf("%s%s: an element of another data center is gone", name, exactName(exact))
			}
		}
	}
}

// What the commands of an EXEC write may be more than is put together in a pipeline. None is executed twice: then it
// would say that the field was there.
func TestNoCommandOfALargeExecIsExecutedTwice(t *testing.T) {
	for _, exact := range []bool{false, true} {
		store := newMemory()
		store.exact = exact
		_, address := serve(t, Options{Backend: store, Limits: Limits{MaxPipelineBytes: 20_000}})
		p := dial(t, address)
		p.do("MULTI")
		for i := range 8 {
			p.do("HSET", "h", string(rune('a'+i)), string(make([]byte, 3000)))
		}
		p.expect("*8\r\n"+strings.Repeat(":1\r\n", 8), "EXEC")
		p.expect(":8\r\n", "HLEN", "h")
	}
}

func TestALargeCollectionIsRefused(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	large := string(make([]byte, 700<<10))
	p.expect(":1\r\n", "HSET", "k", "f", large)
	p.expect("-ERR the resulting value is 1433681 bytes, more than the limit of 1048576 bytes\r\n", "HSET", "k", "g",
		large)
	p.expect(":1\r\n", "HLEN", "k")
	p.expect(":1\r\n", "DEL", "k")
	p.expect(":1\r\n", "HSET", "k", "g", large)
	p.do("MULTI")
	p.do("DEL", "k")
	p.do("HSET", "k", "f", large)
	p.expect("*2\r\n:1\r\n:1\r\n", "EXEC")
}

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
)

// records are the keys of one load: a prefix and a number each. Requests are built when they are sent: a million
// prebuilt requests would use more memory than the measured system.
type records struct {
	prefix string
	first  int // the number of key 0
	count  int
	value  []byte
}

func newRecords(count, valueBytes int) records {
	return prefixed(fmt.Sprintf("user:%d:%d:", count, valueBytes), count, valueBytes)
}

// prefixed returns records whose keys are the prefix and a number.
func prefixed(prefix string, count, valueBytes int) records {
	return records{prefix: prefix, count: count, value: bytes.Repeat([]byte{'v'}, valueBytes)}
}

// part returns the records from key first to before key last.
func (r records) part(first, last int) records {
	r.first, r.count = r.first+first, last-first
	return r
}

func (r records) key(dst []byte, i int) []byte {
	dst = append(dst, r.prefix...)
	return strconv.AppendInt(dst, int64(r.first+i), 10)
}

// get appends the request for key i to dst.
func (r records) get(dst []byte, i int) []byte {
	return r.bulk(append(dst, "*2\r\n$3\r\nGET\r\n"...), i)
}

// set appends the request that writes key i to dst.
func (r records) set(dst []byte, i int) []byte {
	return r.appendValue(r.bulk(append(dst, "*3\r\n$3\r\nSET\r\n"...), i))
}

func (r records) appendValue(dst []byte) []byte {
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(r.value)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, r.value...)
	return append(dst, "\r\n"...)
}

// keysTogether is how many keys an MGET or MSET has: those from the one that was drawn on.
const keysTogether = 10

// incr appends the request that counts in key i to dst.
func (r records) incr(dst []byte, i int) []byte {
	return r.bulk(append(dst, "*2\r\n$4\r\nINCR\r\n"...), i)
}

// mget appends the request for the keys from i on to dst.
func (r records) mget(dst []byte, i int) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n$4\r\nMGET\r\n", 1+keysTogether)
	for n := range keysTogether {
		dst = r.bulk(dst, (i+n)%r.count)
	}
	return dst
}

// mset appends the request that writes the keys from i on to dst.
func (r records) mset(dst []byte, i int) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n$4\r\nMSET\r\n", 1+2*keysTogether)
	for n := range keysTogether {
		dst = r.appendValue(r.bulk(dst, (i+n)%r.count))
	}
	return dst
}

// command is a command other than GET and SET: its request for a key, and the type of its replies.
type command struct {
	request func(r records, dst []byte, i int) []byte
	reply   byte
}

// otherCommands are the further commands of cases, by name.
var otherCommands = map[string]*command{
	"INCR": {records.incr, ':'},
	"MGET": {records.mget, '*'},
	"MSET": {records.mset, '+'},
}

func (r records) bulk(dst []byte, i int) []byte {
	var key [96]byte
	k := r.key(key[:0], i)
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(k)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, k...)
	return append(dst, "\r\n"...)
}

// The connections to each data center for writing and reading records before the load, and the requests sent at once.
const (
	fillWriters = 8
	fillReaders = 8
	fillLot     = 256
)

// write writes every key once, each data center a part of them. With apart, every key is written in its own session:
// without pipelining, each put of a session takes a round trip.
func (r records) write(ctx context.Context, addrs []string, apart bool) error {
	lot := fillLot
	if apart {
		lot = 1
	}
	all := fillWriters * len(addrs)
	return forEachConcurrently(all, func(number int) error {
		addr := addrs[number/fillWriters]
		from, to := number*r.count/all, (number+1)*r.count/all
		var c *conn
		defer func() {
			if c != nil {
				_ = c.Close() // all replies have arrived
			}
		}()
		for at := from; at < to && ctx.Err() == nil; at += lot {
			if c == nil || apart {
				if c != nil {
					_ = c.Close()
				}
				var err error
				if c, err = dial(addr); err != nil {
					return err
				}
			}
			n := min(lot, to-at)
			for i := range n {
				c.send(r.set, at+i)
			}
			if err := c.expect(n, isOK); err != nil {
				return fmt.Errorf("preload keys: %w", err)
			}
		}
		return ctx.Err()
	})
}

// read draws keys as the clients do, and reads so many times in each data center: a long-running deployment has them
// cached.
func (r records) read(ctx context.Context, addrs []string, reads int, popular popularity, seed uint64) error {
	return forEachConcurrently(fillReaders*len(addrs), func(number int) error {
		c, err := dial(addrs[number/fillReaders])
		if err != nil {
			return err
		}
		defer c.Close()
		random := rand.New(rand.NewPCG(seed, uint64(number)))
		for left := reads / fillReaders; left > 0 && ctx.Err() == nil; left -= fillLot {
			n := min(fillLot, left)
			for range n {
				c.send(r.get, popular.draw(random, r.count))
			}
			if err := c.expect(n, reply.isValue); err != nil {
				return fmt.Errorf("warm the caches: %w", err)
			}
		}
		return ctx.Err()
	})
}

// forEachConcurrently calls f concurrently for every number below n.
func forEachConcurrently(n int, f func(number int) error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range errs {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
